/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/raw/relay.h"

#include <string.h>

#define SEND_DEPTH 64u
#define SIGNAL_EVERY 16u
#define RECEIVES 16u
#define REGION_BYTES 64u
#define INLINE_BYTES 256u /* as the peer's own */
#define BATCH 4
#define RECORDS_MAX 32u              /* of a message */
#define RECORDS_BYTES_MAX (1u << 20) /* with more than one */

bool rawrelay_may(const struct rawrelay *r, const struct rawend_legs *legs)
{
	return r->to.count > 0 && legs->record_bytes > 0 && legs->ack_bytes > 0 &&
	       legs->record_bytes <= RAWEND_REGION_BYTES_MAX &&
	       legs->ack_bytes <= RAWEND_REGION_BYTES_MAX;
}

/* The sentence, and of which of them it is. */
static int name_it(const struct rawrelay *r, unsigned i, struct err *err)
{
	struct err why = *err;

	return err_set(err, -1, "%s, which messages are forwarded to: %s", r->to.addr[i].text,
		       why.text);
}

static uint64_t room_for(const struct rawrelay *r, const struct rawend_legs *legs)
{
	uint64_t bytes = legs->record_bytes * r->batch;

	return bytes > legs->ack_bytes ? bytes : legs->ack_bytes;
}

int rawrelay_connect(struct rawrelay *r, struct device *device, const struct rawend_hello *hello,
		     struct err *err)
{
	const struct rawend_legs *legs = &hello->legs;

	r->record_bytes = (uint32_t)legs->record_bytes;
	r->batch = legs->record_bytes * RECORDS_MAX <= RECORDS_BYTES_MAX ? RECORDS_MAX : 1;
	struct rawend_config config = {
		.region_bytes = REGION_BYTES,
		.send_depth = SEND_DEPTH,
		.send_sge = 1,
		.recv_depth = RECEIVES,
		.recv_bytes = room_for(r, legs),
		.inline_bytes = INLINE_BYTES,
		.events = hello->events,
		.legs = { .answer_bytes = legs->ack_bytes },
		.timeout_ms = RAWRELAY_TIMEOUT_MS,
	};

	r->sent = 0;
	for (unsigned i = 0; i < r->to.count; i++) {
		if (rawend_connect(&r->ends[i], device, &r->to.addr[i], &config, RAWEND_ECHO,
				   err) < 0)
			return name_it(r, i, err);
	}
	return 0;
}

static int send_records(const struct rawrelay *r, struct rawend *e, uint32_t records,
			struct err *err)
{
	uint32_t bytes = r->record_bytes * records;
	struct ibv_sge sge = { (uintptr_t)e->memory, bytes, e->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = bytes <= e->inline_bytes ? IBV_SEND_INLINE : 0,
	}, *bad;
	int rc;

	if (r->sent % SIGNAL_EVERY == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(e->qp, &wr, &bad);
	return rc == 0 ? 0 : err_set_errno(err, -1, rc, "posting a SEND");
}

static int await_answer(struct rawend *e, struct err *err)
{
	bool has_answered = false;
	struct ibv_wc wc[BATCH];

	while (!has_answered) {
		int n = rawend_wait(e, wc, BATCH, err);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++) {
			if (!(wc[i].opcode & IBV_WC_RECV))
				continue;
			has_answered = true;
			if (rawend_post_receive(e) != 0)
				return err_set(err, -1, "posting a receive failed");
		}
	}
	return 0;
}

static int forward(struct rawrelay *r, uint32_t records, struct err *err)
{
	r->sent++;
	for (unsigned i = 0; i < r->to.count; i++) {
		if (send_records(r, &r->ends[i], records, err) < 0)
			return name_it(r, i, err);
	}
	/* Who waits for one after the other has waited for all. */
	for (unsigned i = 0; i < r->to.count; i++) {
		if (await_answer(&r->ends[i], err) < 0)
			return name_it(r, i, err);
	}
	return 0;
}

int rawrelay_forward(struct rawrelay *r, uint32_t records, struct err *err)
{
	int rc = 0;

	while (records > 0 && rc == 0) {
		uint32_t n = records < r->batch ? records : r->batch;

		rc = forward(r, n, err);
		records -= n;
	}
	return rc;
}

void rawrelay_clear(struct rawrelay *r)
{
	for (unsigned i = 0; i < r->to.count; i++)
		rawend_clear(&r->ends[i]);
}
