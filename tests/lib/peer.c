/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/peer.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 32
#define BE_KVD "--be-kvd"
#define START_MS 60000u
#define LIFE_S 300u /* then something hangs */
#define LOOK_NS 2000000
#define SWAP_ID 1002u

int kvd_main(int argc, char **argv);

static void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

/* ----------------------------------------------------------------------- kvd */

const char *kvd_path(const struct kvd *kvd, const char *name, char *buf, size_t buf_bytes)
{
	if (snprintf(buf, buf_bytes, "%s/%s", kvd->dir, name) >= (int)buf_bytes)
		raw_die("a path is too long");
	return buf;
}

void kvd_be(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], BE_KVD))
		return;
	exit(kvd_main(argc - 1, argv + 1));
}

/* Another program image: jemalloc and sanitizers are not made for what goes on in a fork. */
static void run_kvd(const char *ready, const char *const *args)
{
	const char *argv[ARGS_MAX] = { "kvd-test", BE_KVD, "--listen", "127.0.0.1:0",
				       "--ready-file", ready };
	int argc = 6;

	for (; *args && argc < ARGS_MAX - 1; args++)
		argv[argc++] = *args;
	alarm(LIFE_S);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	execv("/proc/self/exe", (char **)argv);
	_exit(127);
}

/* Until it wrote where it listens. */
static void wait_ready(struct kvd *kvd, const char *ready)
{
	uint64_t end = raw_now_ms() + START_MS;

	while (raw_now_ms() < end) {
		FILE *f = fopen(ready, "re");
		if (f) {
			bool good = fscanf(f, "%63s", kvd->addr) == 1;
			fclose(f);
			if (good)
				return;
		}
		if (waitpid(kvd->pid, NULL, WNOHANG) == kvd->pid)
			raw_die("kvd ended at its start");
		rest();
	}
	raw_die("kvd did not start");
}

void kvd_folder(struct kvd *kvd)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(kvd->dir, sizeof kvd->dir, "%s/kvd-test-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(kvd->dir))
		raw_die("no folder for the test");
}

void kvd_start(struct kvd *kvd, const char *const *args)
{
	char ready[128];

	if (!*kvd->dir)
		kvd_folder(kvd);
	kvd_path(kvd, "ready", ready, sizeof ready);
	fflush(NULL);
	kvd->pid = fork();
	if (kvd->pid < 0)
		raw_die("fork");
	if (!kvd->pid)
		run_kvd(ready, args);
	wait_ready(kvd, ready);
}

/* A folder and what is in it. */
static void remove_all(const char *path)
{
	DIR *dir = opendir(path);

	for (struct dirent *e; dir && (e = readdir(dir));) {
		char inner[512];
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < (int)sizeof inner &&
		    unlink(inner))
			remove_all(inner);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

void kvd_stop(struct kvd *kvd)
{
	int status = -1;

	kill(kvd->pid, SIGTERM);
	while (waitpid(kvd->pid, &status, 0) < 0 && errno == EINTR)
		;
	remove_all(kvd->dir);
	if (status) {
		fprintf(stderr, "kvd's status is 0x%x\n", status);
		raw_die("kvd did not end well");
	}
	*kvd = (struct kvd){ 0 };
}

/* -------------------------------------------------------------- connections */

static void lend(struct peer *p)
{
	p->lent = aligned_alloc(4096, PEER_LENT_BYTES);
	if (!p->lent)
		raw_die("no memory");
	memset(p->lent, 0, PEER_LENT_BYTES);
	p->held = (struct layout_held *)p->lent;
	p->lent_mr = p->raw.v->reg_mr(p->raw.pd, p->lent, PEER_LENT_BYTES,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!p->lent_mr || link_qp_set_access(p->raw.v, p->c.qp, IBV_ACCESS_REMOTE_READ))
		raw_die("can't lend memory");
}

void peer_connect(struct peer *p, const struct kvd *kvd)
{
	memset(p, 0, sizeof *p);
	p->raw.tolerant = true;
	raw_open(&p->raw, kvd->addr);
	raw_connect_well(&p->raw, &p->c);
	lend(p);
}

int peer_hello(struct peer *p, const struct credentials *who)
{
	struct wire_request q;

	p->c.lent_addr = (uintptr_t)p->held;
	p->c.lent_rkey = p->lent_mr->rkey;
	raw_make_hello(&p->c, who);
	memcpy(&q, p->c.hello, sizeof q);
	p->last_id = q.request_id;
	return raw_say_hello(&p->c, who);
}

void peer_enter(struct peer *p, const struct kvd *kvd)
{
	peer_connect(p, kvd);
	if (peer_hello(p, NULL) != WIRE_OK)
		raw_die("kvd doesn't let a peer in");
}

void peer_leave(struct peer *p)
{
	raw_hang_up(&p->c);
	p->raw.v->dereg_mr(p->lent_mr);
	free(p->lent);
	raw_close(&p->raw);
}

/* ----------------------------------------------------------------- messages */

bool peer_say(struct peer *p, struct wire_request *q, const void *key, const void *value)
{
	uint8_t message[RAW_SEND_BYTES];
	size_t value_bytes = q->flags & WIRE_PULL ? q->segments * sizeof(struct wire_segment)
			     : value		  ? q->value_bytes
						  : 0;

	q->request_id = ++p->last_id;
	memcpy(message, q, sizeof *q);
	if (key)
		memcpy(message + sizeof *q, key, q->key_bytes);
	if (value)
		memcpy(message + sizeof *q + q->key_bytes, value, value_bytes);
	return raw_send(&p->c, message, (uint32_t)(sizeof *q + q->key_bytes + value_bytes));
}

int peer_hear(struct peer *p, int patience_ms)
{
	return raw_reply(&p->c, &p->reply, p->payload, sizeof p->payload, patience_ms)
		       ? p->reply.status
		       : -1;
}

int peer_ask(struct peer *p, struct wire_request *q, const void *key, const void *value)
{
	int status = peer_say(p, q, key, value) ? peer_hear(p, PEER_PATIENCE_MS) : -1;

	if (status >= 0 && (p->reply.request_id != q->request_id || p->reply.op != q->op))
		raw_die("a reply to another request");
	return status;
}

int peer_ask_text(struct peer *p, struct wire_request q, const char *key, const char *value)
{
	q.key_bytes = key ? (uint16_t)strlen(key) : 0;
	if (value)
		q.value_bytes = strlen(value);
	return peer_ask(p, &q, key, value);
}

bool peer_is_ended(struct peer *p)
{
	peer_hear(p, PEER_PATIENCE_MS);
	for (uint64_t end = raw_now_ms() + PEER_PATIENCE_MS; !p->c.gone && raw_now_ms() < end; rest())
		raw_look(&p->c);
	return p->c.gone;
}

/* "part.name" or "name" in kvd's JSON. */
static const char *find_stat(const char *text, const char *name)
{
	const char *dot = strchr(name, '.');
	char quoted[64];

	if (dot) {
		snprintf(quoted, sizeof quoted, "\"%.*s\":{", (int)(dot - name), name);
		text = strstr(text, quoted);
		name = dot + 1;
	}
	snprintf(quoted, sizeof quoted, "\"%s\":", name);
	text = text ? strstr(text, quoted) : NULL;
	return text ? text + strlen(quoted) : NULL;
}

uint64_t peer_stat(struct peer *p, const char *name)
{
	if (peer_ask_text(p, (struct wire_request){ .op = WIRE_STATS }, NULL, NULL) != WIRE_OK)
		raw_die("no statistics");
	p->payload[p->reply.value_bytes] = '\0';
	const char *at = find_stat((const char *)p->payload, name);
	if (!at)
		raw_die(name);
	return strtoull(at, NULL, 10);
}

bool peer_wait_stat(struct peer *p, const char *name, uint64_t least)
{
	for (uint64_t end = raw_now_ms() + PEER_PATIENCE_MS; raw_now_ms() < end; rest())
		if (peer_stat(p, name) >= least)
			return true;
	return false;
}

/* -------------------------------------------------------------------- locks */

uint64_t peer_token(const struct peer *p, uint64_t n)
{
	return layout_token(p->c.welcome.connection_id, n);
}

static uint64_t reach(struct peer *p, struct ibv_send_wr *wr)
{
	struct ibv_sge sge = { (uintptr_t)p->raw.reach, 8, p->raw.mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	uint64_t word;

	wr->wr_id = SWAP_ID;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(p->c.qp, wr, &bad))
		raw_die("can't reach a lock word");
	do {
		if (!raw_completion(&p->c, &wc, PEER_PATIENCE_MS) || wc.status != IBV_WC_SUCCESS)
			raw_die("a lock word is out of reach");
		if (wc.wr_id < RAW_RECVS)
			raw_die("a reply that was not waited for");
	} while (wc.wr_id != SWAP_ID);
	memcpy(&word, p->raw.reach, sizeof word);
	return word;
}

uint64_t peer_lock_word(struct peer *p, uint64_t stripe)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };

	wr.wr.rdma.remote_addr = p->c.welcome.lock_addr + 8 * stripe;
	wr.wr.rdma.rkey = p->c.welcome.lock_rkey;
	return reach(p, &wr);
}

bool peer_lock_swap(struct peer *p, uint64_t stripe, uint64_t expected, uint64_t desired)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_CMP_AND_SWP };

	wr.wr.atomic.remote_addr = p->c.welcome.lock_addr + 8 * stripe;
	wr.wr.atomic.rkey = p->c.welcome.lock_rkey;
	wr.wr.atomic.compare_add = expected;
	wr.wr.atomic.swap = desired;
	return reach(p, &wr) == expected;
}
