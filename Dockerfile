# The tag of the locked dependencies' Python; the lock names every wheel by its hash.
FROM python:3.11-slim AS build
WORKDIR /source
# No pip in the image: it is pip of this stage that installs into /venv.
RUN python -m venv --without-pip /venv
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN pip --python /venv/bin/python install --no-cache-dir --require-hashes -r requirements/runtime.txt \
 && pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY function function
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip --python /venv/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH
# What Crossplane's runtime pod demands.
USER 2000:2000
EXPOSE 9443
ENTRYPOINT ["function-modelplane"]
