# Runs what the host asks for over the second serial line. The protocol is described in agent.rs.
mkdir -p /tmp/job
exec 3<>/dev/ttyS1
stty raw -echo <&3

run() {
    job=/tmp/job/$1
    echo "$2" | base64 -d >"$job.sh"
    setsid sh "$job.sh" >"$job.out" 2>&1 </dev/null 3<&- &
    echo $! >"$job.pid"
    wait $!
    status=$?
    output=$(head -c 1000000 "$job.out" | base64 -w 0)
    # One line at a time: the lock keeps the answers of concurrent jobs apart.
    until mkdir /tmp/job/lock 2>/dev/null; do sleep 0.02; done
    echo "done $1 $status $output" >&3
    rmdir /tmp/job/lock
    rm -f "$job.sh" "$job.out" "$job.pid"
}

echo ready >&3
while read -r verb id code <&3; do
    case $verb in
    # Not a child of this shell but of init: when a child ends, busybox's `read` starts again and forgets what it has
    # read of the line.
    run) (run "$id" "$code" &) ;;
    kill) kill -KILL "-$(cat "/tmp/job/$id.pid")" ;;
    *) echo "agent: what is '$verb'?" ;;
    esac
done
