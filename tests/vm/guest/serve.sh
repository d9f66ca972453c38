#!/usr/bin/env bash
# `serve`: Prometheus scrapes it while fio runs; hostile clients; controllers that go and come; the
# textfile; the capabilities of the unit. nvme0 answers at once, nvme1 after 2.5 s. nvme2 cannot read its sector 8192.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
settled
# the scan of partitions uses the driver
attached >"$out.before"
fast=/dev/$(disk nvme0)
slow=$(disk nvme1)

scrape() { python3 "$here/scrape.py" "$@"; }

# serving NAME: waits until the tool serves
serving() {
    local i
    for ((i = 0; i < 600; i++)); do
        grep -qE ': (serving|writing) ' "$case_dir/$1.err" && return
        sleep 0.05
    done
    return 1
}

begin http
cat >/tmp/prometheus.yml <<'Y'
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: nvme-deep
    static_configs: [{ targets: ["127.0.0.1:9998"] }]
Y
tool serve serve --stages
traced
serving serve
prometheus --config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/prometheus --log.level=error \
    --web.listen-address=127.0.0.1:9090 >"$case_dir/prometheus.err" 2>&1 &
prometheus=$!
refused in-use "$NVME_DEEP" serve
stat_of before "$(disk nvme0)"
load mixed --filename="$fast" --rw=randrw --bs=4k --number_ios=3000 --size=64m --ioengine=libaio \
    --iodepth=8 --rate_iops=1000,1000
load writes --filename="$fast" --rw=write --bs=64k --number_ios=200 --size=64m --ioengine=psync
stat_of after "$(disk nvme0)"
scrape scraped
scrape query "$case_dir" commands_total transferred_bytes_total command_duration_seconds_count \
    command_duration_seconds_bucket stage_duration_seconds_count accuracy lost_commands_total \
    observed_commands_total
scrape metrics "$case_dir/text"
status=0
promtool check metrics <"$case_dir/text" >"$case_dir/promtool.out" 2>&1 || status=$?
echo "$status" >"$case_dir/promtool.status"
scrape hostile "$case_dir/hostile"

# four commands in flight, for 2.5 s
: >/tmp/held
scrape held "$slow" "$case_dir/held" >/tmp/held &
held=$!
for ((i = 0; i < 600; i++)); do
    ! has /tmp/held looking || break
    sleep 0.05
done
load late --filename="/dev/$slow" --rw=randread --bs=4k --number_ios=4 --size=64m --ioengine=libaio \
    --iodepth=4 --iodepth_batch_submit=4
wait $held
mv "$case_dir/late.fio" "$case_dir/late.ended"

# the driver retries a read of the bad sector; it does not retry a read behind the end by ioctl
bad=$(disk nvme2)
dd if="/dev/$bad" of=/dev/null bs=4k count=1 skip=1024 iflag=direct status=none || true
nvme read "/dev/$bad" --start-block=99999999 --block-count=0 --data-size=512 >/dev/null 2>&1 || true
cat /sys/module/nvme_core/parameters/max_retries >"$case_dir/max_retries"
sleep 1.1
scrape metrics "$case_dir/failed"

# the driver's timeout is shorter than the device's latency; the driver logs each timeout
echo 1000 >"/sys/block/$slow/queue/io_timeout"
dmesg -C
dd if="/dev/$slow" of=/dev/null bs=4k count=1 skip=9 iflag=direct status=none || true
for ((i = 0; i < 300; i++)); do
    [[ $(</sys/class/nvme/nvme1/state) == live ]] && break
    sleep 0.1
done
dmesg >"$case_dir/dmesg"
sleep 1
scrape metrics "$case_dir/timeout"
echo 30000 >"/sys/block/$slow/queue/io_timeout"

# a controller goes and comes, and a client comes after it
echo "${pci[1]}" >/sys/bus/pci/drivers/nvme/unbind
sleep 1.5
scrape metrics "$case_dir/gone"
echo "${pci[1]}" >/sys/bus/pci/drivers/nvme/bind
settled
sleep 1.1
scrape metrics "$case_dir/back"
kill $prometheus
stop

begin textfile
mkdir /tmp/collector
chown nobody /tmp/collector
chmod 755 /tmp/collector
tool serve serve --stages=fine --textfile /tmp/collector/nvme.prom --interval 1s --ctrl nvme0
traced
serving serve
load reads --filename="$fast" --rw=randread --bs=4k --number_ios=500 --size=64m --ioengine=psync
sleep 2.5
stat -c %a /tmp/collector/nvme.prom >"$case_dir/mode"
cp /tmp/collector/nvme.prom "$case_dir/text"
ls /tmp/collector >"$case_dir/names"
stop
ls /tmp/collector >"$case_dir/names.after"

# the capabilities and the limit of locked memory of contrib/nvme-deep.service
begin unit
as=(prlimit --memlock=unlimited setpriv --bounding-set=-all,+bpf,+perfmon,+sys_admin --inh-caps=-all)
tool serve serve --stages
traced
serving serve
scrape metrics "$case_dir/text"
stop
as=()

begin wrong
mkdir /tmp/small
mount -t tmpfs -o size=4k none /tmp/small
refused full "$NVME_DEEP" serve --interval 1s --textfile /tmp/small/nvme.prom
refused no-directory "$NVME_DEEP" serve --textfile /tmp/missing/nvme.prom
refused name "$NVME_DEEP" serve --textfile /tmp/small/nvme.txt
refused address "$NVME_DEEP" serve --listen localhost
refused foreign "$NVME_DEEP" serve --listen 192.0.2.1:9998
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
refused unprivileged "${nobody[@]}" "$NVME_DEEP" serve
refused low-port "${nobody[@]}" "$NVME_DEEP" serve --listen 127.0.0.1:80
attached >"$out.after"
cp "$out.before" "$case_dir/attached.before"
cp "$out.after" "$case_dir/attached.after"
