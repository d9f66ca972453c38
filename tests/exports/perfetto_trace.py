# SPDX-License-Identifier: MIT OR Apache-2.0
"""Perfetto traces, by Perfetto's own protobuf definitions."""

from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

import truth as t

EVENT = pb.TrackEvent
# columns that the details of a slice do not repeat
NOT_SHOWN = {"recording", "host", "type", "stage_set", "merged_stages", "merged_ns"}


class Slice:
    def __init__(self, begin, name, details):
        self.begin, self.end, self.name, self.details = begin, None, name, details
        self.inner = []


class Trace:
    def __init__(self, path):
        with open(path, "rb") as file:
            packets = pb.Trace.FromString(file.read()).packet
        self.tracks, self.names, self.snapshots = {}, defaultdict(dict), []
        self.slices, self.open = defaultdict(list), defaultdict(list)
        self.instants, self.counters = [], defaultdict(list)
        events = []
        assert packets[0].sequence_flags == pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        assert packets[0].trace_packet_defaults.timestamp_clock_id == pb.BUILTIN_CLOCK_MONOTONIC
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1
            self.packet(packet, events)
        # Trace Processor sorts by time, and keeps the order of equal times
        for packet, details in sorted(events, key=lambda e: e[0].timestamp):
            self.event(packet.timestamp, packet.track_event, details)

    def packet(self, packet, events):
        kind = packet.WhichOneof("data")
        for table in ("event_names", "debug_annotation_names", "debug_annotation_string_values"):
            for entry in getattr(packet.interned_data, table):
                text = entry.name if table != "debug_annotation_string_values" else entry.str.decode()
                self.names[table][entry.iid] = text
        if kind == "clock_snapshot":
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            assert packet.clock_snapshot.primary_trace_clock == pb.BUILTIN_CLOCK_MONOTONIC
            self.snapshots.append(clocks)
        elif kind == "track_descriptor":
            track = packet.track_descriptor
            assert track.uuid not in self.tracks
            assert not track.parent_uuid or track.parent_uuid in self.tracks
            self.tracks[track.uuid] = track
        elif kind == "track_event":
            # a track and a text are known before their use
            assert packet.track_event.track_uuid in self.tracks
            events.append((packet, self.details(packet.track_event)))
        else:
            assert kind is None and packet.HasField("interned_data"), kind

    def details(self, event):
        found = {}
        for note in event.debug_annotations:
            key = self.names["debug_annotation_names"][note.name_iid]
            which = note.WhichOneof("value")
            value = getattr(note, which)
            if which == "string_value_iid":
                value = self.names["debug_annotation_string_values"][value]
            assert key not in found
            found[key] = value
        return found

    def event(self, at, event, details):
        track = event.track_uuid
        name = self.names["event_names"].get(event.name_iid)
        stack = self.open[track]
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            new = Slice(at, name, details)
            (stack[-1].inner if stack else self.slices[track]).append(new)
            stack.append(new)
        elif event.type == EVENT.TYPE_SLICE_END:
            stack.pop().end = at
        elif event.type == EVENT.TYPE_INSTANT:
            self.instants.append((at, name, details, track))
        else:
            assert event.type == EVENT.TYPE_COUNTER
            which = event.WhichOneof("counter_value_field")
            self.counters[track].append((at, getattr(event, which)))

    def path(self, track):
        """The names of a track and those above it."""
        track = self.tracks[track]
        above = self.path(track.parent_uuid) if track.parent_uuid else ()
        return (*above, track.name)


def queue_name(event):
    return "admin queue" if event["qid"] == 0 else f"queue {event['qid']}"


def span(event):
    """Begin and end of a command."""
    at = event["time_ns"]
    if event["type"] == "unfinished":
        return at - event["age_ns"], None
    length = event.get("driver_ns") if event["type"] == "command" else event["driver_max_ns"]
    times = [at - (length or 0), at, *event.get("points_ns", {}).values()]
    return min(times), max(times)


def check_slice(found, event, truth):
    kind = event["type"]
    assert found.name == event["opcode"] + ("" if kind == "command" else f" ({kind})"), found.name
    want = t.row(truth, event, "")
    for key, value in want.items():
        shown = key not in NOT_SHOWN and "point_" not in key and not key.startswith("time")
        if not shown or key in t.STAGES:
            continue
        if value is not None and "kstack" in key:
            value = value.replace(";", "\n")
        assert found.details.get(key) == value, (event["time_ns"], key, found.details.get(key), value)
    stages = [(s.name, s.end - s.begin) for s in found.inner]
    assert stages == [(s["name"], s["ns"]) for s in event.get("stages", [])], (event, stages)
    edge = found.begin
    for stage in found.inner:
        assert not stage.inner and edge <= stage.begin <= stage.end <= found.end, event
        edge = stage.end


def steps(spans):
    """Commands in flight after each change."""
    changes = defaultdict(int)
    for begin, end in spans:
        if begin != end:
            changes[begin] += 1
            if end is not None:
                changes[end] -= 1
    depth, result = 0, {}
    for at in sorted(changes):
        depth += changes[at]
        result[at] = depth
    return result


def check_counters(trace, truth, spans):
    of_place = defaultdict(list)
    for event, lasted in zip(truth.commands, spans):
        of_place[(event["ctrl"],)].append((event, lasted))
        of_place[(event["ctrl"], queue_name(event))].append((event, lasted))
    counters = {trace.path(track): values for track, values in trace.counters.items()}
    for place, commands in of_place.items():
        want = steps([lasted for _, lasted in commands])
        # the last value of a time counts
        assert dict(counters.pop((*place, "in flight"), [])) == want, place
        ended = sum(event["type"] != "unfinished" for event, _ in commands)
        rates = counters.pop((*place, "completions"), [])
        assert round(sum(rate for _, rate in rates) / 10) == ended, (place, rates, ended)
    assert not counters, counters.keys()


def check_perfetto(path, truth, _name):
    trace = Trace(path)
    real = [clocks.get(pb.BUILTIN_CLOCK_REALTIME) for clocks in trace.snapshots]
    mono = [clocks[pb.BUILTIN_CLOCK_MONOTONIC] for clocks in trace.snapshots]
    assert [r - m for r, m in zip(real, mono) if r] == truth.wall_ns and mono == sorted(mono)
    spans = [span(event) for event in truth.commands]
    lanes = defaultdict(list)
    by_key = defaultdict(list)
    for track, found in trace.slices.items():
        place = trace.path(track)
        lanes[place[:2]].append(found)
        edge = 0
        for one in found:
            assert one.begin >= edge, (place, one.begin, edge)
            edge = one.end if one.end is not None else 1 << 63
            by_key[(*place[:2], one.begin, one.end, one.details["cid"])].append(one)
    for event, (begin, end) in zip(truth.commands, spans):
        found = by_key[(event["ctrl"], queue_name(event), begin, end, event["cid"])]
        check_slice(found.pop(0), event, truth)
    assert not any(by_key.values())
    for place, tracks in lanes.items():
        mine = [s for e, s in zip(truth.commands, spans) if (e["ctrl"], queue_name(e)) == place]
        most = max([1, *steps(mine).values()])
        assert len(tracks) == most, (place, len(tracks), most)
    instants = sorted((at, name, details.get("cid")) for at, name, details, _ in trace.instants)
    others = sorted((e["time_ns"], e["type"], e.get("cid")) for e in truth.others)
    assert [i[:2] for i in instants] == [o[:2] for o in others], (instants, others)
    check_counters(trace, truth, spans)
    return len(truth.commands) + sum(len(e.get("stages", [])) for e in truth.commands)
