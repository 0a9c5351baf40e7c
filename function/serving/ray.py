"""Ray as the way in which the pods of one replica find each other, where vLLM cannot do so itself.

vLLM's own flags for several nodes came with v0.12; before that, and where the author asks for it, the leader
is the head of a Ray cluster and starts the engine once every pod of the group has joined. Waiting is
bounded: what exits is restarted as a whole group by LeaderWorkerSet, and says why in its log. Half an hour
is enough for nodes that scale from zero and pull an image.

The scripts are constants. Values reach them as arguments or variables, the kubelet expands nothing in them,
and KServe's Go template finds nothing to replace.
"""

import re

# A tag is vLLM's version only where the image's own name speaks of vllm; llm-d's, for one, is not.
_VLLM_TAG = re.compile(r"(?:^|/)[^/:@]*vllm[^/:@]*:v?0\.(?P<minor>[0-9]{1,4})(?![0-9])", re.ASCII)
_FIRST_WITH_NODE_FLAGS = 12

LEADER = """\
ray start --head --port=6379 || exit 1
for attempt in {1..360}; do
  if python3 -c 'import os, ray
ray.init(address="auto", log_to_driver=False)
raise SystemExit(sum(node["Alive"] for node in ray.nodes()) < int(os.environ["LWS_GROUP_SIZE"]))'; then
    exec "$@"
  fi
  echo "Waiting until $LWS_GROUP_SIZE nodes have joined Ray"
  sleep 5
done
echo "Fewer than $LWS_GROUP_SIZE nodes have joined Ray" >&2
exit 1
"""

WORKER = """\
for attempt in {1..360}; do
  ray start --address="$LWS_LEADER_ADDRESS:6379" --block && exit 0
  echo "Waiting for Ray on $LWS_LEADER_ADDRESS"
  sleep 5
done
echo "No Ray on $LWS_LEADER_ADDRESS" >&2
exit 1
"""


def needed(image: str, backend: str | None) -> bool:
    """Tell whether vLLM in this image spans nodes by Ray; `backend` is what the author chose, if anything."""
    return backend == "ray" if backend else _predates_node_flags(image)


def _predates_node_flags(image: str) -> bool:
    match = _VLLM_TAG.search(image)
    return match is not None and int(match["minor"]) < _FIRST_WITH_NODE_FLAGS
