# The same files as `make image`, by the same code, for those who build with an engine. Only Debian's Python in the first stage
# counts, and that of the image is Debian's too.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates make mmdebstrap python3-venv
WORKDIR /source
COPY . .
RUN make image IMAGE=/image.tar && mkdir /image && tar -xOf /image.tar layer.tar | tar -xC /image

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin LANG=C.UTF-8 PYTHONUNBUFFERED=1
# What Crossplane's runtime pod demands.
USER 2000:2000
EXPOSE 9443/tcp
ENTRYPOINT ["/usr/local/bin/function-modelplane"]
