/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/link/message.h"

#include <string.h>

#define ALIGN 8u

static uint32_t padded(size_t bytes)
{
	return (uint32_t)((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1));
}

/* -------------------------------------------------------------------- writing */
void link_begin(struct link_writer *w, void *memory, enum link_kind kind, uint64_t epoch,
		uint64_t from, uint64_t to, uint64_t number)
{
	*w = (struct link_writer){ .memory = memory, .length = sizeof *w->header, .header = memory };
	*w->header = (struct link_header){ .kind = (uint16_t)kind, .epoch = epoch, .from = from,
					   .to = to, .number = number };
}

/* Room for that, its padding zero; NULL: there is none. */
static void *take(struct link_writer *w, size_t bytes)
{
	uint32_t all = padded(bytes);
	uint8_t *at = w->memory + w->length;

	if (w->is_full || bytes > LINK_BYTES_MAX || all > LINK_BYTES_MAX - w->length ||
	    w->header->count == LINK_COUNT_MAX) {
		w->is_full = true;
		return NULL;
	}
	memset(at + all - ALIGN, 0, ALIGN);
	w->length += all;
	return at;
}

static void put(struct link_writer *w, const void *bytes, size_t count)
{
	void *at = take(w, count);

	if (!at)
		return;
	memcpy(at, bytes, count);
	w->header->count++;
}

void link_put_pulse(struct link_writer *w, const struct link_pulse *pulse)
{
	put(w, pulse, sizeof *pulse);
}

void link_put_entry(struct link_writer *w, const struct link_entry *entry)
{
	put(w, entry, sizeof *entry);
}

void link_put_number(struct link_writer *w, uint64_t number)
{
	put(w, &number, sizeof number);
}

void link_put_hello(struct link_writer *w, const struct link_hello *hello)
{
	put(w, hello, sizeof *hello);
}

void link_begin_record(struct link_writer *w, uint16_t flags, uint64_t number, uint64_t version,
		       const uint32_t *stripes, uint16_t count)
{
	size_t bytes = count * sizeof *stripes;

	w->record = (struct link_record *)(void *)(w->memory + w->length);
	if (!take(w, sizeof *w->record + bytes))
		return;
	*w->record = (struct link_record){ .flags = flags, .number = number, .version = version,
					   .stripes = count };
	if (bytes)
		memcpy(w->record + 1, stripes, bytes);
}

void link_put_item(struct link_writer *w, const struct link_item *item, const void *key,
		   const void *value)
{
	uint8_t *at = take(w, sizeof *item + item->key_bytes + (size_t)item->value_bytes);

	if (!at)
		return;
	memcpy(at, item, sizeof *item);
	memcpy(at + sizeof *item, key, item->key_bytes);
	if (item->value_bytes)
		memcpy(at + sizeof *item + item->key_bytes, value, item->value_bytes);
	w->record->items++;
}

int link_end_record(struct link_writer *w)
{
	uint32_t began = (uint32_t)((uint8_t *)w->record - w->memory);

	if (w->is_full) {
		w->length = began;
		return -1;
	}
	w->record->bytes = w->length - began;
	w->header->count++;
	return 0;
}

uint32_t link_length(const struct link_writer *w)
{
	w->header->bytes = w->length - (uint32_t)sizeof *w->header;
	return w->length;
}

/* -------------------------------------------------------------------- reading */
int link_open(struct link_reader *r, const void *memory, size_t length, const char **why)
{
	const struct link_header *h = memory;

	*why = "it is shorter than a header, longer than a message may be, or not aligned";
	if (length < sizeof *h || length > LINK_BYTES_MAX || (uintptr_t)memory % ALIGN)
		return -1;
	*why = "it is of a kind that this kvd does not know";
	if (!h->kind || h->kind >= LINK_KINDS)
		return -1;
	*why = "it has another length than it says";
	if (h->bytes != length - sizeof *h || h->count > LINK_COUNT_MAX)
		return -1;
	*r = (struct link_reader){ .header = h, .at = (const uint8_t *)(h + 1), .left = h->count };
	r->end = r->at + h->bytes;
	*why = NULL;
	return 0;
}

static const void *next(struct link_reader *r, size_t bytes)
{
	const uint8_t *at = r->at;

	if (!r->left || bytes > (size_t)(r->end - at))
		return NULL;
	r->left--;
	r->at += bytes;
	return at;
}

const struct link_pulse *link_next_pulse(struct link_reader *r)
{
	return next(r, sizeof(struct link_pulse));
}

const struct link_entry *link_next_entry(struct link_reader *r)
{
	return next(r, sizeof(struct link_entry));
}

const uint64_t *link_next_number(struct link_reader *r)
{
	return next(r, sizeof(uint64_t));
}

const struct link_hello *link_next_hello(struct link_reader *r)
{
	return next(r, sizeof(struct link_hello));
}

/* The bytes of the item that is there, with padding; 0: it is not whole. */
static size_t item_bytes(const uint8_t *at, const uint8_t *end)
{
	const struct link_item *item = (const void *)at;
	size_t bytes;

	if ((size_t)(end - at) < sizeof *item)
		return 0;
	bytes = padded(sizeof *item + item->key_bytes + (size_t)item->value_bytes);
	if (bytes > (size_t)(end - at))
		return 0;
	if ((item->flags & LINK_DELETED) && item->value_bytes)
		return 0;
	if ((item->flags & LINK_PLACE) && item->value_bytes != sizeof(struct link_place))
		return 0;
	return bytes;
}

static bool are_whole(const struct link_reader_record *record)
{
	const uint8_t *at = record->at;

	for (unsigned i = 0; i < record->left; i++) {
		size_t bytes = item_bytes(at, record->end);

		if (!bytes)
			return false;
		at += bytes;
	}
	return at == record->end;
}

bool link_next_record(struct link_reader *r, struct link_reader_record *record)
{
	const struct link_record *h = (const void *)r->at;
	size_t room = (size_t)(r->end - r->at), head;

	if (!r->left || room < sizeof *h || h->bytes > room || h->bytes % ALIGN ||
	    !h->stripes || h->stripes > LINK_STRIPES_MAX)
		return false;
	head = padded(sizeof *h + h->stripes * sizeof(uint32_t));
	if (head > h->bytes)
		return false;
	*record = (struct link_reader_record){ h, (const uint32_t *)(h + 1), r->at + head,
					       r->at + h->bytes, h->items };
	if (!are_whole(record))
		return false;
	r->left--;
	r->at += h->bytes;
	return true;
}

const struct link_item *link_next_item(struct link_reader_record *record, const uint8_t **key,
				       const uint8_t **value)
{
	const struct link_item *item = (const void *)record->at;

	if (!record->left)
		return NULL;
	record->left--;
	*key = record->at + sizeof *item;
	*value = *key + item->key_bytes;
	record->at += item_bytes(record->at, record->end);
	return item;
}
