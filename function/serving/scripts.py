"""The scripts that the pods of a group run where vLLM or KServe's preset cannot connect them.

The scripts are constants. Values reach them as arguments or variables, the kubelet expands nothing in them, and
KServe's Go template finds nothing to replace. A shell that is the first process of a container dies only of signals
that it traps, and runs no trap while it waits for a program in the foreground; `attend` therefore waits in the
background.

Waiting is bounded to half an hour, enough for nodes that scale from zero and pull an image. A container that exits is
restarted with its whole group by LeaderWorkerSet, and its log says why.
"""

_BEGIN = """\
command -v ray >/dev/null || { echo "This image has no Ray: no program called ray is in it" >&2; exit 127; }
trap 'kill "$child" 2>/dev/null; exit 143' TERM
attend() { "$@" & child=$!; wait "$child"; }
"""

# The leader is the head of a Ray cluster and starts the engine once every pod of the group has joined.
RAY_LEADER = f"""\
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

RAY_WORKER = f"""\
{_BEGIN}\
for attempt in {{1..360}}; do
  attend ray start --address="$LWS_LEADER_ADDRESS:6379" --block && exit 0
  echo "Waiting for Ray on $LWS_LEADER_ADDRESS"
  attend sleep 5
done
echo "No Ray on $LWS_LEADER_ADDRESS" >&2
exit 1
"""

RANKS_PORT = 5555  # of the handshake, as in KServe's preset

# Ranks of data parallelism over several pods. Leader and workers run the same script: the first argument is the number
# of ranks on each pod, the rest the command. The script adds the leader's address as a number, because vLLM binds to it
# and resolves no name, and the first rank of a worker. The leader gets no rank, which would select another balancer.
# The leader's name is published before its pod is ready, but not at once.
RANKS = """\
trap 'exit 143' TERM
declare -i rank="LWS_WORKER_INDEX * $1"
shift
for attempt in {1..360}; do
  read -r address _ < <(getent hosts "$LWS_LEADER_ADDRESS")
  if [ -n "$address" ]; then
    [ "$rank" = 0 ] || set -- "$@" --data-parallel-start-rank="$rank"
    exec "$@" --data-parallel-address="$address"
  fi
  echo "Waiting for the address of $LWS_LEADER_ADDRESS"
  sleep 5 &
  wait "$!"
done
echo "$LWS_LEADER_ADDRESS has no address" >&2
exit 1
"""
