"""Nodes that share claims as the contract says, and fail at each claim as a script says."""

import threading
import time

from scripted import BREAK, Node

from helve._wire import messages as wire

#: The node carries the claim out, and its answer is lost.
LOST = "lost"
DAY_MS = 86_400_000


class Row:
    """A claim, or a handle, which has no digest."""

    def __init__(self, owner, index, value, ends_at_ms, digest=None):
        self.digest, self.fence, self.earlier = digest, index, None
        self.is_done = digest is None
        self.finished_ms = None
        self.write(owner, index, value, ends_at_ms)

    def ended(self):
        """What it leaves for the next lease when its time is over."""
        end = wire.LEASE_END_FINISHED if self.is_done else wire.LEASE_END_EXPIRED
        ended_at_ms = self.finished_ms if self.is_done else self.ends_at_ms
        return wire.EarlierLease(end=end, fence=self.fence, ended_at_ms=ended_at_ms)

    def abandoned(self, abandon, now_ms):
        """What it leaves when it is abandoned."""
        before = self.earlier
        if before and before.end != wire.LEASE_END_ABANDONED and not abandon.never_happened:
            return before
        end = wire.LEASE_END_ABANDONED
        return wire.EarlierLease(end=end, fence=self.fence, ended_at_ms=now_ms)

    def write(self, owner, index, value, ends_at_ms):
        self.value, self.ends_at_ms = value, ends_at_ms
        self.info = wire.RecordInfo(owner=owner, revision=index, value_bytes=len(value))
        if ends_at_ms is not None:
            self.info.expires_at_ms = ends_at_ms


class Refused(Exception):  # noqa: N818
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class Kept:
    """What the nodes of one cluster have in common."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rows = {}
        #: Names whose lifetime ended.
        self.over = set()
        #: What the next lease of a name is told, and since when the name is free.
        self.earlier = {}
        self.outcomes = {}
        self.index = 0
        #: How far the cluster's clock is ahead of this machine's.
        self.ahead_ms = 0
        #: The status of each claim that was carried out: what a retry is told again is none.
        self.carried_out = []

    def now_ms(self):
        return int(time.time() * 1000) + self.ahead_ms

    def header(self):
        return wire.ReplyHeader(index=self.index, clock_ms=self.now_ms())

    def find(self, request):
        """The name of a record, and the record if it lives."""
        name = (request.store, request.owner, request.id)
        row = self.rows.get(name)
        if row is not None and row.ends_at_ms is not None and row.ends_at_ms <= self.now_ms():
            del self.rows[name]
            self.over.add(name)
            if row.digest is not None:
                self.earlier[name] = (row.ended(), row.ends_at_ms)
            row = None
        return name, row

    def once(self, request, carry_out):
        """The outcome of a mutation: a retry is told the first one."""
        with self.lock:
            identity = request.identity
            session = identity.session
            key = identity.request_id or (session.session_id, session.seq)
            if key not in self.outcomes:
                self.index += 1
                self.outcomes[key] = carry_out(request)
            return self.outcomes[key]

    def get(self, request):
        with self.lock:
            name, row = self.find(request)
            if row is not None:
                status = wire.HANDLE_STATUS_LIVE
                return wire.GetReply(
                    header=self.header(), status=status, info=row.info, value=row.value
                )
            is_over = name in self.over
            status = wire.HANDLE_STATUS_EXPIRED if is_over else wire.HANDLE_STATUS_UNKNOWN
            return wire.GetReply(header=self.header(), status=status)

    def put(self, request):
        name, row = self.find(request)
        if row is not None and row.digest is not None:
            raise Refused("CLAIMED")
        self.earlier.pop(name, None)
        self.rows[name] = made = Row(request.owner, self.index, request.value, None)
        status = wire.WRITE_STATUS_CREATED if row is None else wire.WRITE_STATUS_REPLACED
        return wire.PutReply(header=self.header(), status=status, info=made.info)

    def delete(self, request):
        name, row = self.find(request)
        self.rows.pop(name, None)
        status = wire.HANDLE_STATUS_UNKNOWN if row is None else wire.HANDLE_STATUS_LIVE
        return wire.DeleteReply(header=self.header(), status=status)

    def claim(self, request):
        if len(request.id.encode()) > 128:
            raise Refused("TOO_LARGE")
        if not request.id or "\0" in request.id:
            raise Refused("BAD_ID")
        name, row = self.find(request)
        if row is not None and row.digest is None:
            raise Refused("CLAIMED")
        action = request.WhichOneof("action")
        if action == "begin":
            reply = self.begin(name, row, request.begin)
        elif row is None or row.fence != getattr(request, action).fence:
            reply = wire.ClaimReply(status=wire.CLAIM_STATUS_LEASE_LOST)
        elif row.is_done:
            reply = self.found(wire.CLAIM_STATUS_DONE, row)
        elif action == "abandon":
            del self.rows[name]
            self.over.discard(name)
            now_ms = self.now_ms()
            self.earlier[name] = (row.abandoned(request.abandon, now_ms), now_ms)
            reply = wire.ClaimReply(status=wire.CLAIM_STATUS_ABANDONED)
        else:
            finish = request.finish
            lasts = finish.HasField("result_ttl_ms")
            ends = self.now_ms() + finish.result_ttl_ms if lasts else None
            row.write(request.owner, self.index, finish.result, ends)
            row.is_done, row.finished_ms = True, self.now_ms()
            reply = wire.ClaimReply(status=wire.CLAIM_STATUS_FINISHED, info=row.info)
        reply.header.CopyFrom(self.header())
        self.carried_out.append(reply.status)
        return reply

    def begin(self, name, row, begin):
        if not 1 <= begin.lease_ms <= DAY_MS:
            raise Refused("BAD_LIFETIME")
        if row is None:
            ends = self.now_ms() + begin.lease_ms
            row = Row(name[1], self.index, begin.note, ends, begin.digest)
            self.rows[name] = row
            self.over.discard(name)
            earlier, free_ms = self.earlier.pop(name, (None, 0))
            if self.now_ms() < free_ms + DAY_MS:
                row.earlier = earlier
            status = wire.CLAIM_STATUS_FRESH
            return wire.ClaimReply(
                status=status, info=row.info, fence=row.fence, earlier=row.earlier
            )
        if row.digest != begin.digest:
            return wire.ClaimReply(status=wire.CLAIM_STATUS_CONFLICT)
        return self.found(
            wire.CLAIM_STATUS_DONE if row.is_done else wire.CLAIM_STATUS_IN_FLIGHT, row
        )

    def found(self, status, row):
        return wire.ClaimReply(status=status, info=row.info, value=row.value)


class Claiming(Node):
    """A node of such a cluster."""

    def __init__(self, kept, *faults):
        self.kept = kept
        #: What goes wrong with each claim: LOST, a step of a script, or a function that is called
        #: before the claim; None: nothing.
        self.faults = list(faults)
        #: Actions of the claims that came, with their identities.
        self.claimed = []
        super().__init__()

    def mutated(self, request, context, carry_out):
        try:
            return self.kept.once(request, carry_out)
        except Refused as refused:
            return self.do(refused.reason, context, None)

    def claim(self, request, context):
        self.claimed.append((request.WhichOneof("action"), request.identity))
        fault = self.faults.pop(0) if self.faults else None
        if callable(fault):
            fault(request)
        elif fault not in (None, LOST):
            return self.do(fault, context, None)
        reply = self.mutated(request, context, self.kept.claim)
        return self.do(BREAK, context, None) if fault == LOST else reply

    def get(self, request, context):
        return self.kept.get(request)

    def put(self, request, context):
        return self.mutated(request, context, self.kept.put)

    def delete(self, request, context):
        return self.mutated(request, context, self.kept.delete)
