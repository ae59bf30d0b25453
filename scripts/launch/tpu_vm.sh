#!/usr/bin/env bash
# One training on all machines of a Cloud TPU slice. Run it where gcloud is set up, on a machine that stays on:
#
#   VENV=/opt/venv scripts/launch/tpu_vm.sh my-slice us-central2-b vitzoo train --config vit/imagenet:B/16 --workdir /shared/runs/b16
#
# The command is run on every machine of the slice, with --distributed: each asks the TPU's metadata for the others.
# The folder of the run must be one that all see: a disk, not a bucket's address (see docs/scaling.md).
#
# VENV      the environment that holds vitzoo, at the same path on every machine; left out: vitzoo is in their PATH
# RESTARTS  (10) how often it starts again after a preemption or a lost machine
# MINUTES   (60) how long it waits for the slice to be READY
# RECREATE  a command that makes the slice again, and installs vitzoo there, once it was taken away; left out: it ends
#
# Ctrl-C and SIGTERM are handed on to the machines, which save; a second one ends this script alone.
# Exit code: that of the training: 0 done, 1 failed, 2 refused (or no such slice), 75 preempted, 130 Ctrl-C.
set -um # m: what it starts is in a group of its own, which Ctrl-C doesn't reach
if [ "$#" -lt 3 ]; then
  echo "tpu_vm.sh: give a slice, its zone and a command" >&2
  exit 2
fi
slice=$1
zone=$2
shift 2
say() { echo "tpu_vm.sh: $*" >&2; }
output=$(mktemp)
trap 'rm -f "$output" "$output.code"' EXIT

on_all() { # runs a command on every machine; one that doesn't answer for a minute is lost
  gcloud compute tpus tpu-vm ssh "$slice" --zone="$zone" --worker=all --command="$1" \
    --ssh-flag="-o ServerAliveInterval=15" --ssh-flag="-o ServerAliveCountMax=4" </dev/null
}

asked="" # the exit code, once somebody asks this script to end
hand_on() {
  [ -n "$asked" ] && exit "$asked"
  asked=$2
  say "asks the machines to save and end"
  on_all "pkill -$1 -x vitzoo" >/dev/null 2>&1 &
}
trap 'hand_on INT 130' INT
trap 'hand_on TERM 75' TERM

wait_for_slice() { # sets `machines`, how many the slice has
  local said state seen="" until=$((SECONDS + 60 * ${MINUTES:-60}))
  while [ -z "$asked" ]; do
    if said=$(gcloud compute tpus tpu-vm describe "$slice" --zone="$zone" --format='value(state,networkEndpoints.len())' 2>"$output"); then
      read -r state machines <<<"$(tail -n 1 <<<"$said")"
    elif grep -q NOT_FOUND "$output"; then
      state="not there"
    else # a network or an account that fails says nothing of the slice
      state="not to be seen ($(grep -m 1 . "$output"))"
      if [ -z "${code:-}" ]; then
        say "$slice is $state"
        exit 2
      fi
    fi
    case $state in
      READY) return ;;
      "not there" | PREEMPTED | TERMINATED | STOPPED)
        if [ -z "${RECREATE:-}" ]; then
          say "$slice is $state; make it again, then the same command goes on from the last checkpoint"
          exit "${code:-2}"
        fi
        say "$slice is $state; makes it again: $RECREATE"
        bash -c "$RECREATE" || { say "RECREATE failed"; exit 1; }
        ;;
      *)
        [ "$state" = "$seen" ] || say "$slice is $state; waits for READY"
        seen=$state
        ;;
    esac
    if [ "$SECONDS" -ge "$until" ]; then
      say "$slice is $state after ${MINUTES:-60} minutes, not READY; the same command goes on from the last checkpoint"
      exit "${code:-2}"
    fi
    sleep "${PAUSE:-30}"
  done
  exit "$asked"
}

# What each machine runs. gcloud tries again where ssh lost its connection, but a start is to be made once; and what an
# earlier one left running is asked to save first.
of_machine() {
  local start=$1 activate="" clear=""
  shift
  [ -n "${VENV:-}" ] && activate="source $(printf %q "$VENV/bin/activate") && "
  [ "$start" -gt 0 ] && clear='pkill -TERM -x vitzoo; for i in {1..60}; do pgrep -x vitzoo || break; sleep 2; done >/dev/null; '
  echo "mkdir \"\${TMPDIR:-/tmp}/vitzoo-$began-$start\" && { $clear$activate$(printf '%q ' "$@") --distributed; code=\$?;" \
    'echo "tpu_vm.sh: exit code $code"; exit $code; }'
}

began=$(date +%s)-$$
for ((start = 0; start <= ${RESTARTS:-10}; start++)); do
  wait_for_slice
  { on_all "$(of_machine "$start" "$@")"; echo $? >"$output.code"; } | tee "$output" &
  job=$!
  while kill -0 "$job" 2>/dev/null; do wait "$job"; done # a signal to this script ends the waiting, not the job
  code=$(cat "$output.code")
  codes=$(sed -n 's/^tpu_vm.sh: exit code //p' "$output")
  told=$(wc -w <<<"$codes")

  if grep -qx 2 <<<"$codes"; then exit 2; fi    # refused
  if grep -qx 130 <<<"$codes"; then exit 130; fi # Ctrl-C
  if [ "$code" = 0 ]; then exit 0; fi
  if [ -n "$asked" ]; then exit "$asked"; fi
  if grep -qx 75 <<<"$codes"; then
    code=75 why="preempted, and saved"
  elif [ "$told" -lt "$machines" ]; then
    code=1 why="$((machines - told)) of $machines machines told no exit code, so they are lost"
  elif grep -qxE '13[1-9]|1[4-9][0-9]' <<<"$codes"; then
    code=1 why="a process died (exit codes ${codes//$'\n'/ })"
  else
    exit 1 # failed by itself, and would again
  fi
  if [ "$start" -lt "${RESTARTS:-10}" ]; then
    say "$why; starts again from the last checkpoint ($((start + 1)) of ${RESTARTS:-10})"
  fi
done
say "$why; no start is left, so it ends"
exit "$code"
