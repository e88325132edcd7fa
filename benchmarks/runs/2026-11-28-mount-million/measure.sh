#!/bin/sh
# A million members in one directory of a zip, a tar and a pack: how long mounting and `ls -f` take,
# cold, and what memory each member costs the process that serves the mount.
# Usage: measure.sh STOOK EMPTY_DIRECTORY ROUNDS; as root, because caches are dropped.
set -eu
stook=$1; cd "$2"; rounds=$3
python3 - <<'PYTHON'
import io, tarfile, zipfile
names = [f"long/{number:07}.jpg" for number in range(1_000_000)]
with zipfile.ZipFile("x.zip", "w") as zip:
    for name in names:
        zip.writestr(zipfile.ZipInfo(name, (2026, 11, 28, 0, 0, 0)), b"")
with tarfile.open("x.tar", "w") as tar:
    for name in names:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
PYTHON
"$stook" pack --quiet x.tar x.stook
mkdir mnt
for kind in zip tar stook; do
    "$stook" mount --quiet x.$kind mnt   # The index of the tar is made now.
    "$stook" umount --quiet mnt
done
for round in $(seq "$rounds"); do
    for kind in zip tar stook; do
        sync; echo 3 > /proc/sys/vm/drop_caches
        begun=$(date +%s%N)
        "$stook" mount --quiet x.$kind mnt
        mounted=$(date +%s%N)
        members=$(ls -f mnt/long | wc -l)
        listed=$(date +%s%N)
        process=$("$stook" mount --status --json mnt | python3 -c 'import json,sys; print(json.load(sys.stdin)["process"])')
        kib=$(awk '/RssAnon/ {print $2}' /proc/"$process"/status)
        "$stook" umount --quiet mnt
        echo "$round $kind: mounted in $(( (mounted - begun) / 1000000 )) ms, $members names in" \
            "$(( (listed - mounted) / 1000000 )) ms, $(( kib * 1024 / 1000000 )) bytes of memory per member"
    done
done
