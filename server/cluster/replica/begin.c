/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/replica/begin.h"

#include <stdlib.h>

#include "server/cluster/replica/impl.h"

/* -------------------------------------------------------------------- a member's */
static unsigned count_open(const struct records *rs)
{
	unsigned n = 0;

	for (const struct record *r = rs->open.next; r != &rs->open; r = r->next)
		n++;
	return n;
}

static void list_open(const struct records *rs, struct link_entry *entries)
{
	for (const struct record *r = rs->open.next; r != &rs->open; r = r->next)
		*entries++ = (struct link_entry){ .stripe = r->stripes[0], .version = r->version,
						  .reign = r->reign };
}

bool replica_ask(struct replica *r, uint64_t number)
{
	struct replica_question *q = &r->question;

	replica_enter(r, NULL);
	free(q->entries);
	*q = (struct replica_question){ .count = count_open(&r->records) };
	q->entries = malloc((q->count + 1) * sizeof *q->entries);
	if (q->entries) {
		q->number = number;
		list_open(&r->records, q->entries);
	}
	replica_leave(r);
	return q->number;
}

void replica_put_question(struct replica *r, struct link_writer *open)
{
	const struct replica_question *q = &r->question;

	replica_enter(r, NULL);
	for (unsigned i = q->answered; i < q->count && open->header->count < LINK_COUNT_MAX; i++)
		link_put_entry(open, &q->entries[i]);
	replica_leave(r);
}

static bool is_of(const struct link_entry *asked, const struct link_entry *answer)
{
	return asked->stripe == answer->stripe && asked->version == answer->version &&
	       asked->reign == answer->reign && answer->fate <= RECORDS_APPLIED;
}

/* Each of the part that was asked last, in that order. */
static bool take_answers(struct replica_question *q, struct link_reader *begin)
{
	unsigned left = q->count - q->answered;
	const struct link_entry *e;

	if (begin->left != (left < LINK_COUNT_MAX ? left : LINK_COUNT_MAX))
		return false;
	while ((e = link_next_entry(begin))) {
		if (!is_of(&q->entries[q->answered], e))
			return false;
		q->entries[q->answered++].fate = e->fate;
	}
	return !begin->left;
}

enum replica_answered replica_answered(struct replica *r, struct link_reader *begin)
{
	struct replica_question *q = &r->question;
	enum replica_answered answered = REPLICA_ANSWERED_NOT;

	replica_enter(r, NULL);
	if (q->number && begin->header->number == q->number && take_answers(q, begin))
		answered = q->answered < q->count ? REPLICA_ANSWERED_PART
						  : REPLICA_ANSWERED_WHOLE;
	replica_leave(r);
	return answered;
}

/* -------------------------------------------------------------------- a primary's */
bool replica_answer(struct replica *r, struct link_reader *open, struct link_writer *begin)
{
	const struct link_entry *e;

	replica_enter(r, NULL);
	while ((e = link_next_entry(open)) && e->stripe < r->records.stripes) {
		struct link_entry answer = *e;

		answer.fate = records_fate(&r->records, e->stripe, e->version, e->reign);
		link_put_entry(begin, &answer);
	}
	replica_leave(r);
	return !e && !open->left;
}
