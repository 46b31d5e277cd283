#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tests/conformance/objects.py ROUNDS: the device under pyverbs, which loads libibverbs itself.

In each round all objects are made, used and ended: a message, a READ, a WRITE and an atomic
between two queue pairs, with events.  After the first round the process has all descriptors
and mappings that it ever needs.
"""
import os
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BYTES = 4096
REMOTE = (
    e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC
)


def poll(cq, wr_id):
    """The next completion; it is this one, and good."""
    found = []
    while not found:
        _, found = cq.poll(1)
    assert found[0].status == e.IBV_WC_SUCCESS, found[0]
    assert found[0].wr_id == wr_id, found[0]
    return found[0]


def connect(qp, other, gid):
    """From RESET to RTS."""
    attr = QPAttr()
    attr.qp_access_flags = REMOTE
    attr.dest_qp_num = other.qp_num
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer = 12
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
    route = GlobalRoute(dgid=gid, sgid_index=0)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    qp.to_rts(attr)


def send(qp, opcode, wr_id, sge, to=None):
    """Posts a request; to: the remote region."""
    wr = SendWR(wr_id, opcode=opcode, num_sge=1, sg=[sge], send_flags=e.IBV_SEND_SIGNALED)
    if to and opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.set_wr_atomic(to.rkey, to.buf, 5)
    elif to:
        wr.set_wr_rdma(to.rkey, to.buf)
    qp.post_send(wr)


def one_round(context):
    """All of it once."""
    pd = PD(context)
    channel = CompChannel(context)
    cq = CQ(context, 16, None, channel)
    here = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | REMOTE)
    there = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | REMOTE)
    init = QPInitAttr(
        qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4)
    )
    one, two = QP(pd, init), QP(pd, init)
    connect(one, two, context.query_gid(1, 0))
    connect(two, one, context.query_gid(1, 0))
    sge = SGE(here.buf, 64, here.lkey)
    cq.req_notify()
    here.write("a message".ljust(64), 64)
    two.post_recv(RecvWR(1, 1, [SGE(there.buf, 64, there.lkey)]))
    send(one, e.IBV_WR_SEND, 2, sge)
    channel.get_cq_event(cq)
    cq.ack_events(1)
    poll(cq, 2)
    assert poll(cq, 1).byte_len == 64
    assert there.read(9, 0) == b"a message"
    there.write("an answer".ljust(64), 64)
    send(one, e.IBV_WR_RDMA_READ, 3, sge, there)
    poll(cq, 3)
    assert here.read(9, 0) == b"an answer"
    here.write(bytes(8).decode(), 8)
    send(one, e.IBV_WR_RDMA_WRITE, 4, SGE(here.buf, 8, here.lkey), there)
    poll(cq, 4)
    send(one, e.IBV_WR_ATOMIC_FETCH_AND_ADD, 5, SGE(here.buf, 8, here.lkey), there)
    poll(cq, 5)
    assert there.read(8, 0) == b"\5" + bytes(7)
    for thing in (one, two, here, there, cq, channel, pd):
        thing.close()


def held():
    """Descriptors, and mappings of the device's memory."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = sum("softverbs" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), mapped


def main():
    """The rounds, and what they left."""
    names = [device.name.decode() for device in get_device_list()]
    assert names[0] == "soft0", names
    first = None
    for _ in range(int(sys.argv[1])):
        with Context(name="soft0") as context:
            one_round(context)
        first = first or held()
    assert held() == first, f"{held()} descriptors and mappings instead of {first}"
    print(f"pyverbs: {sys.argv[1]} rounds, {first} descriptors and mappings all the time")


main()
