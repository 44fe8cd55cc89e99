#!/usr/bin/env bash
# Horovod 0.28.1 (TensorFlow 2.15.1, Python 3.11, Gloo): HOROVOD_GLOO_IFACE does not choose where tensors travel.
#
# Guess: with `horovodrun --network-interfaces lo`, which sets it, two ranks of one host are connected on 127.0.0.1 only.
# Outcome: they are also connected on the address of the host's own name, here 127.0.0.2. Only Horovod's first, global
# connections use the interface. Each process set, the one of all ranks included, makes its own connections:
# GlooContext::InitializeForProcessSet reads its member gloo_iface_, which only the global context has set, so it is
# empty, and Gloo looks up the host's name. So ranks may talk over another network than the chosen one, and Horovod does
# not start on a host whose name has no address. tools/horovod_source.sh corrects it.
#
# Needs Linux, Python 3.11, a C++ compiler, and unshare with mount namespaces. About 4 minutes on two cores.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
python=$folder/venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check tensorflow-cpu==2.15.1 setuptools==69.5.1 wheel==0.43.0 \
    cmake==3.31.6 packaging==24.0 cloudpickle==3.0.0 psutil==5.9.8 pyyaml==6.0.1
HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 \
    CXXFLAGS="-include stdexcept -include cstdint" PATH="$folder/venv/bin:$PATH" MAKEFLAGS="-j2" \
    "$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps horovod==0.28.1
cat >"$folder/connections.py" <<'PY'
import os

import horovod.tensorflow as hvd
import psutil
import tensorflow as tf

hvd.init()
hvd.allreduce(tf.zeros(1))
server = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
found = [each for each in psutil.Process().connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
own = {each.laddr.ip.removeprefix("::ffff:") for each in found if each.raddr.port != server}
if hvd.rank() == 0:
    print("HOROVOD_GLOO_IFACE:", os.environ["HOROVOD_GLOO_IFACE"], "connected to rank 1 on:", *sorted(own), flush=True)
hvd.allreduce(tf.zeros(1))
if own != {"127.0.0.1", "127.0.0.2"}:
    raise SystemExit("changed: a rank had connections on both addresses")
PY
printf '127.0.0.1 localhost\n127.0.0.2 %s\n' "$(uname -n)" >"$folder/hosts"
export TF_CPP_MIN_LOG_LEVEL=3
unshare --map-root-user --mount sh -c 'mount --bind "$1/hosts" /etc/hosts && cd "$1" && PATH="$1/venv/bin:$PATH" &&
    exec horovodrun --gloo --network-interfaces lo -np 2 "$1/venv/bin/python" connections.py' - "$folder"
# Seen on 2026-11-28: [0]<stdout>:HOROVOD_GLOO_IFACE: lo connected to rank 1 on: 127.0.0.1 127.0.0.2
