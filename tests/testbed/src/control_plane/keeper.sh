#!/bin/bash
# keeper.sh DIRECTORY APISERVER PORT [RUNNER]: run an API server and its etcd in a directory, until the
# process RUNNER has ended and no test holds the lock `used`. The lock `alive` is held as long as this script
# runs. Both programs end with the script, even if it is killed.
set -eu
cd "$1"
apiserver=$2 port=$3 etcd=$(($3 + 1)) peer=$(($3 + 2)) runner=${4:-}
exec 8>> used 9>> alive
flock --nonblock 9
rm -rf data
setpriv --pdeathsig KILL etcd --data-dir data \
    --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" > etcd.log 2>&1 8>&- 9>&- &
setpriv --pdeathsig KILL "$apiserver" --etcd "http://127.0.0.1:$etcd" --port "$port" --cert-dir certs \
    > apiserver.log 2>&1 8>&- 9>&- &
{
    [ -z "$runner" ] || tail --pid="$runner" --sleep-interval=0.2 --follow /dev/null
    flock 8
} 9>&- &
wait -n || true
kill -KILL $(jobs -p) 2> /dev/null || true
wait || true
rm -rf data
