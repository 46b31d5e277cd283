/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/iov.h"

#include <errno.h>
#include <string.h>

int pieces_set(struct pieces *p, const struct iovec *iov, int count)
{
	p->count = 0;
	p->bytes = 0;
	p->registered = false;
	if (count < 0 || count > KVD_IOV_MAX)
		return KVD_EINVAL;
	for (int i = 0; i < count; i++) {
		if (!iov[i].iov_len)
			continue;
		if (__builtin_add_overflow(p->bytes, iov[i].iov_len, &p->bytes))
			return KVD_EINVAL;
		p->iov[p->count++] = iov[i];
	}
	return 0;
}

static bool find(struct pieces *p, const struct registrar *r, unsigned i)
{
	return buffers_find(r->buffers, r->device, p->iov[i].iov_base, p->iov[i].iov_len, &p->keys[i]);
}

int pieces_register(struct pieces *p, const struct registrar *r, int access)
{
	if (p->registered)
		return 0;
	memset(p->mr, 0, sizeof p->mr);
	for (unsigned i = 0; i < p->count; i++) {
		if (find(p, r, i))
			continue;
		p->mr[i] = r->verbs->reg_mr(r->pd, p->iov[i].iov_base, p->iov[i].iov_len, access);
		if (!p->mr[i]) {
			int rc = errno;
			p->registered = true;
			pieces_release(p, r->verbs);
			return rc ? rc : ENOMEM;
		}
		p->keys[i] = (struct buffer_keys){ p->mr[i]->lkey, p->mr[i]->rkey };
	}
	p->registered = true;
	return 0;
}

bool pieces_find(struct pieces *p, const struct registrar *r)
{
	if (p->registered)
		return true;
	if (!p->count || !find(p, r, 0))
		return false;
	for (unsigned i = 1; i < p->count; i++)
		if (!find(p, r, i))
			return false;
	memset(p->mr, 0, sizeof p->mr);
	p->registered = true;
	return true;
}

void pieces_release(struct pieces *p, const struct verbs *verbs)
{
	for (unsigned i = 0; p->registered && i < p->count; i++)
		if (p->mr[i])
			verbs->dereg_mr(p->mr[i]);
	p->registered = false;
}

void pieces_gather(const struct pieces *p, void *to)
{
	uint8_t *at = to;

	for (unsigned i = 0; i < p->count; at += p->iov[i++].iov_len)
		memcpy(at, p->iov[i].iov_base, p->iov[i].iov_len);
}

/* What of piece i belongs to the first `left` bytes from it on. */
static size_t part(const struct pieces *p, unsigned i, size_t left)
{
	return p->iov[i].iov_len < left ? p->iov[i].iov_len : left;
}

void pieces_scatter(const struct pieces *p, const void *from, size_t bytes)
{
	const uint8_t *at = from;

	for (unsigned i = 0; bytes; i++) {
		size_t n = part(p, i, bytes);
		memcpy(p->iov[i].iov_base, at, n);
		at += n;
		bytes -= n;
	}
}

void pieces_add(const struct pieces *p, uint64_t from, size_t bytes, struct hash_stream *s)
{
	for (unsigned i = 0; bytes; i++) {
		size_t length = p->iov[i].iov_len;
		if (from >= length) {
			from -= length;
			continue;
		}
		size_t n = length - from < bytes ? length - from : bytes;
		hash_add(s, (const uint8_t *)p->iov[i].iov_base + from, n);
		bytes -= n;
		from = 0;
	}
}

uint64_t pieces_checksum(const struct pieces *p, size_t bytes, const struct layout_item *head,
			 size_t key_bytes, uint64_t version, uint64_t offset)
{
	struct hash_stream s;

	hash_item_begin(&s, head, key_bytes);
	pieces_add(p, 0, bytes, &s);
	return hash_item_end(&s, version, offset);
}

uint64_t pieces_hash(const struct pieces *p)
{
	struct hash_stream s;

	if (p->count == 1)
		return hash_bytes(p->iov[0].iov_base, p->bytes);
	hash_bytes_begin(&s);
	pieces_add(p, 0, p->bytes, &s);
	return hash_bytes_end(&s);
}

unsigned pieces_sge(const struct pieces *p, uint64_t from, uint32_t bytes, struct ibv_sge *sge,
		    unsigned max, uint32_t *covered)
{
	unsigned n = 0;

	*covered = 0;
	for (unsigned i = 0; i < p->count && n < max && *covered < bytes; i++) {
		if (from >= p->iov[i].iov_len) {
			from -= p->iov[i].iov_len;
			continue;
		}
		uint64_t room = p->iov[i].iov_len - from, left = bytes - *covered;
		uint32_t length = (uint32_t)(room < left ? room : left);
		sge[n++] = (struct ibv_sge){ (uintptr_t)p->iov[i].iov_base + from, length,
					     p->keys[i].lkey };
		*covered += length;
		from = 0;
	}
	return n;
}
