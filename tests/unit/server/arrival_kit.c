/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/server/arrival_kit.h"

#include <errno.h>
#include <time.h>

#include "common/auth/auth.h"
#include "server/access/rate_limit.h"
#include "server/lock/locker.h"
#include "server/worker/conn.h"
#include "tests/unit/said.h"

static struct ibv_device device[2] = { { .name = "soft0" }, { .name = "soft1" } };
static struct options options = { .handshakes = RATE };
struct ibv_context context[2] = { { .device = &device[0] }, { .device = &device[1] } };
struct ibv_qp qp = { .qp_num = QP_NUM };
struct rdma_cm_id ids[IDS];
struct worker worker[WORKERS];
struct server server[3];
struct host host;

static struct conn foreign = { .disconnected = true };

enum fault fault;
bool users;
uint64_t now_ns, slept_ns;
uint32_t inline_bytes;
unsigned acked, qps, drops;
struct link_config made_with;
struct link_depths ready_with;
struct wire_accept answer;
struct rdma_conn_param accepted_with;
struct rdma_cm_id *accepted, *rejected, *deleted, *disconnected;
const struct conn *dropped;
const char *why;

/* ---------------------------------------------------------------------- the device */

static int ack_cm_event(struct rdma_cm_event *e)
{
	e->param.conn.private_data = NULL; /* it is gone now */
	acked++;
	return 0;
}

static int reject_id(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	assert_int_equal(bytes, sizeof answer);
	memcpy(&answer, data, bytes);
	rejected = id;
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	deleted = id;
	return 0;
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	accepted = id;
	accepted_with = *param;
	assert_int_equal(param->private_data_len, sizeof answer);
	memcpy(&answer, param->private_data, sizeof answer);
	if (fault == LOST_MEANWHILE)
		atomic_store(&server[0].rails[0].is_lost, true);
	errno = ECONNRESET;
	return fault == NO_ACCEPT ? -1 : 0;
}

static int destroy_qp(struct ibv_qp *q)
{
	assert_ptr_equal(q, &qp);
	assert_true(qps > 0);
	qps--;
	return 0;
}

static int disconnect_id(struct rdma_cm_id *id)
{
	disconnected = id;
	return 0;
}

static const struct verbs made_up = { .ack_cm_event = ack_cm_event, .reject = reject_id,
				      .destroy_id = destroy_id, .accept = accept_id,
				      .destroy_qp = destroy_qp, .disconnect = disconnect_id };

/* ------------------------------------------------------------------ what is called */

struct ibv_qp *__wrap_link_qp_new(const struct verbs *v, const struct link_config *config, uint32_t *bytes,
				  struct err *err);
int __wrap_link_qp_init(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *q, int access,
			struct err *err);
int __wrap_link_qp_ready_tuned(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *q, int access,
			       uint8_t issues, uint8_t answers, const struct device_tuning *tuning,
			       struct err *err);
void __wrap_conn_drop(struct conn *c, const char *reason);
bool __wrap_conn_check_rights(struct conn *c, int rights);
bool __wrap_gate_has_users(const struct gate *gate);
bool __wrap_knock_may(struct knock *knock, const struct addr *peer, uint64_t at_ns);
struct locker_note *__wrap_locker_note_new(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

struct ibv_qp *__wrap_link_qp_new(const struct verbs *v, const struct link_config *config, uint32_t *bytes,
				  struct err *err)
{
	assert_ptr_equal(v, &made_up);
	made_with = *config;
	*bytes = inline_bytes;
	if (fault == NO_QP)
		return err_set(err, -1, "no queue pair") ? NULL : NULL;
	qps++;
	return &qp;
}

int __wrap_link_qp_init(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *q, int access,
			struct err *err)
{
	(void)v;
	(void)id;
	assert_ptr_equal(q, &qp);
	assert_int_equal(access, 0);
	return fault == NO_INIT ? err_set(err, -1, "no init") : 0;
}

int __wrap_link_qp_ready_tuned(const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *q, int access,
			       uint8_t issues, uint8_t answers, const struct device_tuning *tuning,
			       struct err *err)
{
	(void)v;
	(void)id;
	assert_ptr_equal(q, &qp);
	assert_int_equal(access, 0);
	assert_non_null(tuning);
	ready_with = (struct link_depths){ .issues = issues, .answers = answers };
	return fault == NO_READY ? err_set(err, -1, "not ready") : 0;
}

void __wrap_conn_drop(struct conn *c, const char *reason)
{
	dropped = c;
	why = reason;
	drops++;
	atomic_store(&c->disconnected, true);
}

bool __wrap_conn_check_rights(struct conn *c, int rights)
{
	(void)c;
	assert_int_equal(rights, 0);
	return fault != WRONG_RIGHTS;
}

bool __wrap_gate_has_users(const struct gate *gate)
{
	(void)gate;
	return users;
}

bool __wrap_knock_may(struct knock *knock, const struct addr *peer, uint64_t at_ns)
{
	(void)knock;
	assert_string_equal(peer->text, "192.0.2.9:5000");
	assert_int_equal(at_ns, now_ns);
	return fault != KNOCKS;
}

struct locker_note *__wrap_locker_note_new(void)
{
	return fault == NO_NOTE ? NULL : __real_malloc(1);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	const uint64_t ns = now_ns + (clock == CLOCK_BOOTTIME ? slept_ns : 0);

	*ts = (struct timespec){ .tv_sec = (time_t)(ns / S), .tv_nsec = (long)(ns % S) };
	return 0;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fault == NO_CONN && n * bytes == sizeof(struct conn) ? NULL : __real_calloc(n, bytes);
}

/* It was held. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	assert_int_equal(__real_pthread_mutex_unlock(lock), 0);
	return 0;
}

void *__wrap_malloc(size_t bytes)
{
	return fault == NO_PLACE_TO_WAIT && bytes == sizeof(struct arrival) ? NULL : __real_malloc(bytes);
}

/* -------------------------------------------------------------------- who arrives */

static void set_addr(struct sockaddr_storage *to, const char *text)
{
	struct addr a;
	struct err err;

	assert_int_equal(addr_parse(&a, text, &err), 0);
	memcpy(to, &a.v4, sizeof a.v4);
}

struct rdma_cm_id *id_of(unsigned i, unsigned rail)
{
	struct rdma_cm_id *id = &ids[i];

	*id = (struct rdma_cm_id){ .verbs = &context[rail] };
	set_addr(&id->route.addr.src_storage, rail ? "192.0.2.2:7480" : "192.0.2.1:7480");
	set_addr(&id->route.addr.dst_storage, "192.0.2.9:5000");
	return id;
}

struct wire_connect good(uint16_t depth, uint64_t space)
{
	struct wire_connect c = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .depth = depth, .space = space };

	memset(c.nonce, 0x5a, sizeof c.nonce);
	return c;
}

const struct rdma_conn_param ordinary = { .initiator_depth = 3, .responder_resources = 5, .qp_num = 99 };

const char *ask_with(struct rdma_cm_id *id, const void *data, uint8_t bytes,
			    const struct rdma_conn_param *param)
{
	struct rdma_cm_event e = { .id = id, .event = RDMA_CM_EVENT_CONNECT_REQUEST, .param.conn = *param };
	unsigned before = acked;

	accepted = rejected = deleted = NULL;
	e.param.conn.private_data = data;
	e.param.conn.private_data_len = bytes;
	said_begin();
	arrival_asked(&host, &e);
	assert_int_equal(acked, before + 1);
	return said_end();
}

const char *ask(struct rdma_cm_id *id, uint16_t depth, uint64_t space)
{
	struct wire_connect c = good(depth, space);

	return ask_with(id, &c, sizeof c, &ordinary);
}

struct conn *come(unsigned i, unsigned rail, uint64_t space)
{
	struct rdma_cm_id *id = id_of(i, rail);

	ask(id, 32, space);
	assert_ptr_equal(accepted, id);
	return id->context;
}

void expect_refused(const struct rdma_cm_id *id, enum wire_refusal refusal, uint32_t limit)
{
	static const uint8_t none[WIRE_NONCE_BYTES];

	assert_null(accepted);
	assert_ptr_equal(rejected, id);
	assert_ptr_equal(deleted, id);
	assert_int_equal(answer.magic, WIRE_MAGIC);
	assert_int_equal(answer.version, WIRE_VERSION);
	assert_int_equal(answer.refusal, refusal);
	assert_int_equal(answer.limit, limit);
	assert_int_equal(answer.flags, 0);
	assert_memory_equal(answer.nonce, none, sizeof none);
}

void expect_waiting(void)
{
	assert_null(accepted);
	assert_null(rejected);
	assert_null(deleted);
}

void bury(struct conn *c)
{
	conns_remove(c);
	free(c->lock_note);
	free(c);
}

/* ------------------------------------------------------------------------- group */

static void make_server(unsigned i, const pthread_mutexattr_t *checked)
{
	server[i] = (struct server){ .host = &host, .options = &options, .verbs = &made_up, .rail_count = 2,
				     .locker = (struct locker *)&host,
				     .connections_max = i ? TEAM_MAX : ALL_MAX, .space = i ? TEAM : 0 };
	pthread_mutex_init(&server[i].conns_lock, checked);
	for (unsigned r = 0; r < 2; r++)
		server[i].rails[r] = (struct rail){ .number = r, .ctx = &context[r], .limits.rd_atom = 16 };
}

static void make_worker(unsigned i)
{
	struct server *s = &server[i == 3];

	worker[i] = (struct worker){ .server = s, .rail = &s->rails[i == 1] };
	worker[i].queues.number = i;
	worker[i].queues.places = PLACES;
	assert_int_equal(commands_init(&worker[i].commands), 0);
	s->worker[s->worker_count++] = &worker[i];
}

int arrival_make(void **state)
{
	pthread_mutexattr_t checked;
	struct err err;

	(void)state;
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	host = (struct host){ .servers = server, .server_count = 2, .listener_count = 2 };
	assert_int_equal(addr_parse(&host.listeners[0].addr, "192.0.2.1:7480", &err), 0);
	assert_int_equal(addr_parse(&host.listeners[1].addr, "192.0.2.2:7480", &err), 0);
	host.listeners[1].rail = 1;
	pthread_mutex_init(&host.done_lock, &checked);
	for (unsigned i = 0; i < 2; i++)
		make_server(i, &checked);
	pthread_mutexattr_destroy(&checked);
	server[2] = (struct server){ .space = NOWHERE, .conns = &foreign, .conn_count = 100, .pending = 100 };
	for (unsigned i = 0; i < WORKERS; i++)
		make_worker(i);
	fault = NOTHING;
	users = false;
	now_ns = S;
	inline_bytes = 0;
	acked = qps = drops = 0;
	dropped = NULL;
	return auth_init();
}

static void fini_commands(struct commands *commands)
{
	for (struct command *c = commands_take(commands), *next; c; c = next) {
		next = c->next;
		free(c);
	}
	commands_fini(commands);
}

int arrival_unmake(void **state)
{
	(void)state;
	said_begin();
	arrivals_refuse(&host, true);
	said_end();
	for (unsigned i = 0; i < 2; i++) {
		while (server[i].conns)
			bury(server[i].conns);
		pthread_mutex_destroy(&server[i].conns_lock);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		fini_commands(&worker[i].commands);
	return 0;
}
