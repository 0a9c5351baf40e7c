"""Ranks of data parallelism over several pods, where KServe's preset cannot start this version of vLLM.

One script for leader and workers: the first argument is the number of ranks on each pod, the rest the command. What
is added depends on the pod: the leader's address as a number, because vLLM binds to it and resolves no name, and the
first rank of a worker. The leader is given none: that would make it a balancer of another kind.

A name is published before its pod is ready, yet not at once, hence the patience, as with Ray.
"""

PORT = 5555  # of the handshake, as in KServe's preset

SCRIPT = """\
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
