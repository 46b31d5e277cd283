/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/replica.h"

#include <stdlib.h>

#include "server/cluster/record/out.h"
#include "server/cluster/replica/disk.h"
#include "server/cluster/replica/in.h"
#include "server/cluster/replica/out.h"
#include "server/durable/durable.h"

/* -------------------------------------------------------------------- what records ask for */
/* What is listed is its worker's; else it is of whoever asks, in the order of commits. */
static void finish_or_keep(struct replica *r, struct record *record, bool is_applied)
{
	struct replica_record *o = (struct replica_record *)record;
	struct replica_due *due = is_applied ? &r->inside->applied : &r->inside->dropped;

	if (o->is_listed) {
		replica_finish(o, is_applied);
		return;
	}
	record->next = NULL;
	*(due->first ? due->end : &due->first) = record;
	due->end = &record->next;
}

static void on_apply(void *arg, struct record *record)
{
	finish_or_keep(arg, record, true);
}

static void on_drop(void *arg, struct record *record)
{
	finish_or_keep(arg, record, false);
}

/* -------------------------------------------------------------------- life */
int replica_new(const struct replica_options *o, struct replica **out, struct err *err)
{
	uint32_t stripes = (uint32_t)o->store->table->stripes;
	struct replica *r = calloc(1, sizeof *r);
	struct record_slot *slots = calloc(stripes, sizeof *slots);
	uint8_t *has = calloc(stripes / 8 + 1, 1), *way = calloc(stripes / 8 + 1, 1);

	if (!r || !slots || !has || !way) {
		free(way);
		free(has);
		free(slots);
		free(r);
		return err_set(err, -1, "no memory for the records of %u stripes", stripes);
	}
	r->options = *o;
	r->slots = slots;
	r->copy.has = has;
	r->on_its_way = way;
	r->incarnation = o->incarnation;
	atomic_flag_clear(&r->is_walking);
	pthread_mutex_init(&r->lock, NULL);
	o->store->waits = true;
	records_init(&r->records, slots, stripes,
		     &(struct records_hooks){ on_apply, on_drop, r });
	*out = r;
	return 0;
}

void replica_delete(struct replica **at)
{
	struct replica *r = *at;

	if (!r)
		return;
	*at = NULL;
	pthread_mutex_destroy(&r->lock);
	free(r->question.entries);
	free(r->copy.has);
	free(r->on_its_way);
	free(r->slots);
	free(r);
}

static void wake_worker(void *arg)
{
	struct replica_worker *w = arg;

	if (w->wake)
		w->wake(w->wake_arg);
}

int replica_worker_new(struct replica *r, struct store_worker *store, void (*wake)(void *arg),
		       void *arg, struct replica_worker **out, struct err *err)
{
	struct replica_worker *w = calloc(1, sizeof *w);
	uint64_t *acks = malloc(REPLICA_PEERS_MAX * (size_t)ACKS_MAX * sizeof *acks);

	if (!w || !acks || r->worker_count == REPLICA_WORKERS_MAX) {
		free(acks);
		free(w);
		return err_set(err, -1, "no memory for a worker's records");
	}
	w->replica = r;
	w->incarnation = r->incarnation;
	w->store = store;
	w->wake = wake;
	w->wake_arg = arg;
	w->finished_end = &w->finished;
	durable_port_init(&w->disk, wake_worker, w);
	w->others = (struct store_others){ replica_submit, w };
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++) {
		w->peers[i].worker = w;
		w->peers[i].acks = acks + (size_t)i * ACKS_MAX;
		w->peers[i].reading_end = &w->peers[i].reading;
		w->peers[i].parked_end = &w->peers[i].parked;
	}
	r->workers[r->worker_count++] = w;
	store->others = &w->others;
	*out = w;
	return 0;
}

/* By whichever connection its sender has now: one that is new may have brought it again. */
static void acknowledge(struct replica_worker *w, const struct replica_write *d)
{
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++) {
		struct replica_peer *q = &w->peers[i];

		if (q->link && q->member && q->incarnation == d->incarnation) {
			replica_acknowledge(q, d->epoch, d->number);
			return;
		}
	}
}

static void come_back(struct replica_worker *w, const struct replica_write *d)
{
	if (d->kind == WRITE_CHANGE) {
		d->record->write = NULL;
		replica_change_written(w, d->record, d->op.result);
	} else if (d->op.result != DURABLE_WRITTEN) {
		replica_unfit(w->replica, "its disk does not take another member's change");
	} else if (d->kind != WRITE_DROP && !w->replica->is_unfit) {
		acknowledge(w, d);
	}
}

static void take_written(struct replica_worker *w)
{
	struct durable_op *next;

	for (struct durable_op *op = durable_port_take(&w->disk); op; op = next) {
		struct replica_write *d = (struct replica_write *)op;

		next = op->next;
		replica_count_written(w, d);
		come_back(w, d);
		replica_forget_write(d);
	}
}

/* The first one that goes takes along what is open, which the disk may have been given. */
static void drop_all(struct replica_worker *w)
{
	struct replica *r = w->replica;

	for (unsigned i = 0; i < r->worker_count; i++)
		take_written(r->workers[i]);
	replica_enter(w->replica, w);
	records_empty(&w->replica->records);
	replica_leave(w->replica);
	replica_do(w);
}

void replica_worker_delete(struct replica_worker **at)
{
	struct replica_worker *w = *at;
	struct replica *r = w ? w->replica : NULL;

	if (!w)
		return;
	*at = NULL;
	drop_all(w);
	replica_take_back(w);
	w->store->others = NULL;
	for (unsigned i = 0; i < r->worker_count; i++)
		if (r->workers[i] == w)
			r->workers[i] = r->workers[--r->worker_count];
	free(w->peers[0].acks);
	free(w);
}

/* -------------------------------------------------------------------- any thread */
uint64_t replica_visible(struct replica *r)
{
	struct durable *d = r->options.store->durable;
	uint64_t visible, reign;

	replica_enter(r, NULL);
	visible = r->records.role == RECORDS_PRIMARY ? records_visible(&r->records) : 0;
	reign = r->records.reign;
	replica_leave(r);
	if (d && visible)
		durable_seen(d, reign, visible);
	return visible;
}

bool replica_is_settled(struct replica *r)
{
	bool is_settled;

	replica_enter(r, NULL);
	is_settled = r->records.role == RECORDS_PRIMARY && records_is_settled(&r->records);
	replica_leave(r);
	return is_settled;
}

static uint64_t bytes_of(const struct replica_record *o)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < (o->op ? o->op->count : o->count); i++)
		bytes += o->op ? o->op->records[i].value_bytes
			       : o->items[i].item ? item_bytes(o->items[i].item) : 0;
	return bytes;
}

uint64_t replica_lacking(struct replica *r, uint32_t member, uint64_t *bytes)
{
	const struct record *rec;
	uint64_t number = 0;

	replica_enter(r, NULL);
	for (rec = r->records.open.next; rec != &r->records.open && !number; rec = rec->next)
		if (r->records.role == RECORDS_PRIMARY && records_lacks(rec, member)) {
			number = rec->number;
			*bytes = bytes_of((const struct replica_record *)rec);
		}
	replica_leave(r);
	return number;
}

/* -------------------------------------------------------------------- connections */
static struct replica_peer *find(struct replica_worker *w, const struct link_peer *link)
{
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++)
		if (w->peers[i].link == link)
			return &w->peers[i];
	return NULL;
}

bool replica_up(struct replica_worker *w, struct link_peer *link)
{
	struct replica_peer *q = find(w, NULL);

	if (!q)
		return false;
	q->link = link;
	q->ack_count = 0;
	replica_seat(q);
	return true;
}

void replica_down(struct replica_worker *w, struct link_peer *link)
{
	struct replica_peer *q = find(w, link);

	if (!q)
		return;
	q->link = NULL;
	q->member = 0;
	q->is_begun = false;
	replica_stop_reading(q);
}

bool replica_heard(struct replica_worker *w, struct link_peer *link, struct link_reader *r)
{
	const struct link_header *h = r->header;
	struct replica_peer *q = find(w, link);

	if (h->kind != LINK_RECORDS && h->kind != LINK_ACKS)
		return false;
	if (!q || !q->member || h->from != q->incarnation || h->to != w->incarnation)
		return true; /* of, or for, a table that is no more */
	if (h->kind == LINK_RECORDS)
		replica_heard_records(q, r);
	else
		replica_heard_acks(q, r);
	if (q->link && !w->replica->is_unfit && r->left)
		link_peer_close(link, "its message is not what its header says");
	return true;
}

void replica_read(struct replica_worker *w, uint64_t cookie, bool is_ok)
{
	replica_has_read(w, cookie, is_ok);
}

bool replica_is_writing(const struct replica_worker *w)
{
	return w->writes;
}

bool replica_has_parked(const struct replica_worker *w)
{
	return w->parked;
}

void replica_flush(struct replica_worker *w)
{
	take_written(w);
	for (unsigned i = 0; i < REPLICA_PEERS_MAX; i++) {
		struct replica_peer *q = &w->peers[i];

		if (q->link)
			replica_take_parked(q);
		if (q->link)
			replica_go_on_reading(q);
		if (q->link)
			replica_send_acks(q);
		if (q->link)
			replica_send_records(q);
	}
	replica_take_back(w);
}
