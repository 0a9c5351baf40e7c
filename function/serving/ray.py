"""Ray as the way in which the pods of one replica find each other, where vLLM cannot do so itself.

Where that is so, `domain/executor.py` says: the leader is the head of a Ray cluster and starts the engine once every
pod of the group has joined. Waiting is bounded: what exits is restarted as a whole group by LeaderWorkerSet, and says
why in its log. Half an hour is enough for nodes that scale from zero and pull an image.

The scripts are constants. Values reach them as arguments or variables, the kubelet expands nothing in them,
and KServe's Go template finds nothing to replace. A shell that is the first process of a container dies of no signal
it does not catch, and catches none while it waits for a program in the foreground: hence `attend`.
"""

_BEGIN = """\
command -v ray >/dev/null || { echo "This image has no Ray: no program called ray is in it" >&2; exit 127; }
trap 'kill "$child" 2>/dev/null; exit 143' TERM
attend() { "$@" & child=$!; wait "$child"; }
"""

LEADER = f"""\
{_BEGIN}\
attend ray start --head --port=6379 || exit 1
for attempt in {{1..360}}; do
  if attend python3 -c 'import os, ray
ray.init(address="auto", log_to_driver=False)
raise SystemExit(sum(node["Alive"] for node in ray.nodes()) < int(os.environ["LWS_GROUP_SIZE"]))'; then
    trap - TERM
    exec "$@"
  fi
  echo "Waiting until $LWS_GROUP_SIZE nodes have joined Ray"
  attend sleep 5
done
echo "Fewer than $LWS_GROUP_SIZE nodes have joined Ray" >&2
exit 1
"""

WORKER = f"""\
{_BEGIN}\
for attempt in {{1..360}}; do
  attend ray start --address="$LWS_LEADER_ADDRESS:6379" --block && exit 0
  echo "Waiting for Ray on $LWS_LEADER_ADDRESS"
  attend sleep 5
done
echo "No Ray on $LWS_LEADER_ADDRESS" >&2
exit 1
"""
