/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire.h -- every message between kvd and its clients.
 *
 * All integers are little-endian.  A connection begins with struct
 * wire_connect in the private data of the rdma_cm request; kvd answers with
 * struct wire_accept in its accept or reject.  Then the client SENDs one
 * WIRE_HELLO and gets one reply with a struct wire_welcome.  Before that its
 * queue pair has no remote rights.  From then on each request is answered by
 * exactly one reply, in any order.  A client has at most `credits` requests
 * outstanding.
 *
 * Where kvd has users (WIRE_ACCEPT_USERS), the hello carries a user's name and that
 * user's proof.  kvd's proof comes behind the welcome: see auth.h.  A hello without a good
 * proof is answered by WIRE_EDENIED after a while, and the connection ends; so is one of a
 * user who has as many connections as one may have, by WIRE_EBUSY.
 *
 * A request is a struct wire_request, then the key, then the value or, with
 * WIRE_PULL, the struct wire_segments that kvd READs it from.  A reply is a
 * struct wire_reply and its payload.
 */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include <assert.h>
#include <stdint.h>

#define WIRE_MAGIC 0x3144564bu /* "KVD1" */
#define WIRE_VERSION 10u

/* The longest message, either way. */
#define WIRE_MESSAGE_BYTES_MAX 8192u

#define WIRE_NONCE_BYTES 32u
#define WIRE_PROOF_BYTES 64u
#define WIRE_NAME_BYTES_MAX 32u

struct wire_connect {
	uint32_t magic;
	uint16_t version;
	uint16_t depth; /* requests outstanding that the client asks for */
	uint64_t space; /* which namespace: space_number() of its name; 0: the one without */
	uint8_t nonce[WIRE_NONCE_BYTES]; /* random */
};
static_assert(sizeof(struct wire_connect) == 48, "wire"); /* rdma_cm takes 56 */

enum wire_refusal {
	WIRE_ACCEPTED = 0,
	WIRE_REFUSED_MAGIC = 1,
	WIRE_REFUSED_VERSION = 2,
	WIRE_REFUSED_CONNECTIONS = 3,
	WIRE_REFUSED_RESOURCES = 4,
	WIRE_REFUSED_STOPPING = 5,
	WIRE_REFUSED_RATE = 6, /* too many from this address; limit: a second */
	WIRE_REFUSED_SPACE = 7, /* no such namespace; where there are users: a denied hello */
	WIRE_REFUSALS
};

struct wire_accept {
	uint32_t magic;
	uint16_t version;
	uint16_t refusal; /* enum wire_refusal */
	uint32_t limit;   /* the limit that was hit, where there is one */
	uint32_t flags;   /* WIRE_ACCEPT_* */
	uint8_t nonce[WIRE_NONCE_BYTES]; /* random */
};
static_assert(sizeof(struct wire_accept) == 48, "wire");

#define WIRE_ACCEPT_USERS 1u /* a hello needs a name and a proof */

/*
 * Where TCP introduces the queue pairs instead of rdma_cm (--bootstrap tcp): the client
 * sends a request, with a struct wire_connect; kvd a response or a rejection, with a
 * struct wire_accept; the client that it is ready; then nobody anything.  The end of the
 * TCP connection is that of the connection.
 */
#define WIRE_BOOTSTRAP_MAGIC 0x3154564bu /* "KVT1" */
#define WIRE_BOOTSTRAP_VERSION 1u
#define WIRE_BOOTSTRAP_DATA_BYTES 64u

enum wire_bootstrap_kind {
	WIRE_BOOTSTRAP_REQUEST = 1,
	WIRE_BOOTSTRAP_RESPONSE = 2,
	WIRE_BOOTSTRAP_REJECTION = 3,
	WIRE_BOOTSTRAP_READY = 4,
};

enum wire_bootstrap_link { WIRE_BOOTSTRAP_INFINIBAND = 1, WIRE_BOOTSTRAP_ETHERNET = 2 };

struct wire_bootstrap {
	uint32_t magic;
	uint16_t version;
	uint8_t kind;       /* enum wire_bootstrap_kind */
	uint8_t link_layer; /* enum wire_bootstrap_link: as the peer's */
	uint32_t qpn;       /* 24 bits */
	uint32_t psn;       /* 24 bits: of the first packet that the sender of this sends */
	uint16_t lid;
	uint8_t mtu;             /* enum ibv_mtu; the smaller of both is used */
	uint8_t initiator_depth; /* READs and atomics that it issues at once */
	uint8_t responder_resources; /* and that it answers */
	uint8_t data_bytes;
	uint16_t unused;
	uint8_t gid[16];
	uint8_t data[WIRE_BOOTSTRAP_DATA_BYTES];
};
static_assert(sizeof(struct wire_bootstrap) == 104, "wire");

enum wire_op {
	WIRE_HELLO = 1, /* value_addr, value_rkey: struct layout_held[LAYOUT_HELD_MAX];
			 * value_checksum: a secret, for WIRE_FATE after this connection;
			 * key: the user's name; value: the user's proof, or nothing */
	WIRE_PING = 2,    /* a value is passed over: for a message of some length */
	WIRE_GET = 3,     /* the fallback of a one-sided GET */
	WIRE_PUT = 4,
	WIRE_DELETE = 5,
	WIRE_KEYS = 6,    /* key: prefix; version: cursor, 0 to begin */
	WIRE_FLUSH = 7,   /* delete every key; WIRE_UNIX: at ttl_ms, 0: not any more */
	WIRE_STATS = 8,
	WIRE_RELEASE = 9, /* the item that a WIRE_GET pinned was READ; version ~0: none, the answer
			   * says that the member of a cluster serves */
	WIRE_LOCK = 10,   /* wait for stripe `version` in kvd's queue, to hold it as `token`,
			   * for ttl_ms at the most: then WIRE_EBUSY; 0: only who holds it gets WIRE_OK */
	WIRE_UNLOCK = 11, /* `token` held stripe `version`, on which somebody waits, or whose word
			   * the client may not change */
	WIRE_FATE = 12,   /* of request `value_bytes` of the former connection `version`, whose
			   * hello had `value_checksum` and, of a cluster, was told the reign
			   * `item_flags`; WIRE_OK: it had an effect or an answer,
			   * reply.word is its status, reply.version and reply.value_bytes are
			   * what they were; WIRE_NOT_FOUND: it had none and never will;
			   * WIRE_EBUSY: ask again, that connection is being taken apart;
			   * WIRE_EUNSUPPORTED: nothing is known of it any more, but if it was
			   * sent in the last reply.value_bytes milliseconds: as WIRE_NOT_FOUND */
	WIRE_TXN = 13,    /* value: `version` times a struct wire_txn, key and value; all or
			   * nothing; WIRE_CONDITION: reply.value_bytes is which one's check failed */
	WIRE_INCR = 14,   /* value: struct wire_incr; reply.value_bytes: the new number */
	WIRE_APPEND = 15,
	WIRE_TOUCH = 16,  /* a new ttl_ms for what is there, or other signs, or both */
	WIRE_BACKUP = 17, /* key: the path of a folder to be made by kvd; reply.version: enum
			   * wire_backup; payload: a sentence; ask again while it is running */
	WIRE_HINTS = 18,  /* value: uint32_t each: where an item was that a one-sided GET found */
	WIRE_PREPEND = 19,
	WIRE_WHERE = 20,   /* of a cluster: where its members listen for clients, as far as this one
			    * knows: an address a line, the primary first, "-" for one that it does
			    * not know; item_signs: so many of them are the primary's, 0: one;
			    * version: the epoch; word: the reign in which this one serves,
			    * 0: it does not; item_flags: how long ago it heard of the primary, in
			    * microseconds, ~0: too long, or they are not connected */
	WIRE_CLUSTER = 21, /* version: enum wire_cluster; key: a member's name, or nothing;
			    * value_checksum: a number of the client's for this command, which is
			    * asked again with it while it is running; item_flags: copies; reply as
			    * of WIRE_BACKUP; WIRE_EELSEWHERE: the primary's to do */
	WIRE_OPS
};

/*
 * A reply that nobody asked for, with request_id WIRE_NOTICE_ID, op 0 and one of these as status,
 * to a client whose hello had WIRE_NOTICES: what kvd knows of trouble at its end.  It takes
 * one receive more than the credits.
 */
#define WIRE_NOTICE_ID 0xffffffffu
enum wire_notice {
	WIRE_NOTICE_PORT_DOWN = 1, /* the port of kvd's device */
	WIRE_NOTICE_PORT_UP = 2,
	WIRE_NOTICE_DEVICE = 3,    /* the device failed, and kvd ends */
};

/* How far a command is that takes a while. */
enum wire_backup { WIRE_BACKUP_RUNNING = 0, WIRE_BACKUP_DONE = 1, WIRE_BACKUP_FAILED = 2 };

enum wire_cluster {
	WIRE_CLUSTER_INIT = 1,    /* makes it, of `item_flags` copies; 0: as --cluster-copies says */
	WIRE_CLUSTER_PROMOTE = 2, /* that member becomes primary */
	WIRE_CLUSTER_REMOVE = 3,  /* that member leaves the set */
	WIRE_CLUSTER_FORCE = 4,   /* this member becomes primary with what it has; key: its name */
};

enum wire_flag {
	WIRE_PULL = 1,       /* the value is in the client's memory */
	WIRE_IF_ABSENT = 2,
	WIRE_IF_PRESENT = 4,
	WIRE_IF_VERSION = 8, /* `version` must equal the item's */
	WIRE_HEAD = 16,      /* WIRE_GET: version and length, not the value */
	WIRE_INITIAL = 32,   /* WIRE_INCR: an absent key counts from `initial` */
	WIRE_NOTICES = 64,   /* WIRE_HELLO: the client takes notices */
	WIRE_UNIX = 128,     /* ttl_ms is a Unix time in milliseconds; one that is over will do */
	WIRE_KEEP_TTL = 256, /* WIRE_PUT, WIRE_TOUCH: what is there keeps its expiry */
	WIRE_STALE = 512,    /* signs of what is stored */
	WIRE_CLAIMED = 1024,
	WIRE_SIGNS = 2048,   /* WIRE_TOUCH: the signs become those; without it they stay */
	WIRE_OR_STALE = 4096, /* WIRE_PUT with WIRE_IF_VERSION: also if the item's version is higher;
			       * then it is stored as stale, and keeps expiry and WIRE_CLAIMED */
	WIRE_UNSIGNED = 8192, /* WIRE_INCR: of 64 bits without a sign, and goes round */
	WIRE_DOWN = 16384,    /* the same, downwards, to 0 at the least */
};

#define WIRE_TTL_MS_MAX 3153600000000ull /* a hundred years */
#define WIRE_UNIX_MS_MAX 253402300799999ull /* the year 9999; what is left counts to WIRE_TTL_MS_MAX */

struct wire_request {
	uint32_t request_id; /* chosen by the client, repeated in the reply */
	uint8_t op;
	uint8_t segments;    /* of a pulled value: 1 to WIRE_SEGMENTS_MAX */
	uint16_t key_bytes;
	uint32_t value_bytes;
	uint32_t flags;      /* enum wire_flag */
	uint64_t token;      /* of the lock that this change is made under, or 0 */
	uint64_t ttl_ms;     /* 0 = for ever; WIRE_INCR, WIRE_APPEND, WIRE_PREPEND: of a new key */
	uint64_t version;
	uint64_t value_addr;
	uint64_t value_checksum; /* XXH3-64 of a pulled value */
	uint32_t value_rkey;
	uint32_t item_flags;     /* the client's, of what is stored; ttl_ms says of which */
};
static_assert(sizeof(struct wire_request) == 64, "wire");

/* A piece of a pulled value, in their order; behind the key, not aligned. */
struct wire_segment {
	uint64_t addr;
	uint64_t bytes;
	uint32_t rkey;
	uint32_t unused;
};
static_assert(sizeof(struct wire_segment) == 24, "wire");
#define WIRE_SEGMENTS_MAX 16u

struct wire_incr {
	int64_t delta;   /* WIRE_UNSIGNED: both without a sign; an absent key becomes `initial` */
	int64_t initial;
};
static_assert(sizeof(struct wire_incr) == 16, "wire");

enum wire_status {
	WIRE_OK = 0,
	WIRE_NOT_FOUND = 1,
	WIRE_CONDITION = 2,     /* WIRE_IF_* was false; version: the item's */
	WIRE_EMEMORY = 3,       /* table full */
	WIRE_ETOOBIG = 4,       /* key or value over the limit */
	WIRE_EINVALID = 5,      /* malformed request */
	WIRE_EPULL = 6,         /* READ of the value failed or its checksum did */
	WIRE_EBUSY = 7,         /* too much aside; nothing was done */
	WIRE_EUNSUPPORTED = 8,
	WIRE_ESTOPPING = 9,
	WIRE_ENUMBER = 10,      /* WIRE_INCR: the value is not a number */
	WIRE_ERANGE = 11,       /* WIRE_INCR: the sum is none of 64 bits */
	WIRE_EDENIED = 12,      /* the user may not; WIRE_HELLO: no such user, or no proof */
	WIRE_EDISK = 13,        /* the disk is full or broken; nothing was done */
	WIRE_EUNKNOWN = 14,     /* the disk failed: the change may be found after a restart */
	WIRE_ECROWDED = 15,     /* too many keys share the buckets of this one */
	WIRE_EELSEWHERE = 16,   /* this member of a cluster does not serve, or not in the reign that
				 * the connection is of; nothing was done */
	WIRE_STATUSES
};

struct wire_reply {
	uint32_t request_id;
	uint8_t op;
	uint8_t status;
	uint16_t flags;
	uint64_t version;  /* of the item; WIRE_KEYS: the next cursor, 0 at the end */
	uint64_t value_bytes;
	uint64_t bucket;   /* number of the bucket that holds the entry, or ~0 */
	uint64_t word;     /* the entry; WIRE_GET without WIRE_PINNED: when it expires */
	uint64_t buckets;  /* buckets in use */
	uint64_t clock_ms; /* kvd's clock */
	uint32_t item_flags; /* WIRE_GET without WIRE_PINNED: the client's */
	uint16_t item_signs; /* LAYOUT_STALE, LAYOUT_CLAIMED */
	uint16_t lease_ms;   /* of a cluster: the reign's lease is good for so long, counted from when
			      * the request was sent; 0: that is not said */
};
static_assert(sizeof(struct wire_reply) == 64, "wire");

/*
 * Behind the reply to a change of one key, in any number: entries that changes of
 * others made in the index since the connection's last such reply; for the mirror.
 */
struct wire_news {
	uint64_t place; /* bucket << 8 | which word of it */
	uint64_t word;
};
static_assert(sizeof(struct wire_news) == 16, "wire");

/* wire_reply.flags */
#define WIRE_SLOT_MASK 0x00ffu   /* which word of the bucket is `word` */
#define WIRE_PINNED 0x0100u      /* WIRE_GET: no payload; READ the item at `word` */

/* RDMA devices that a kvd serves at the most; a welcome has the keys of the one that it is sent by. */
#define RAILS_MAX 4u

struct wire_welcome {
	uint64_t table_addr;
	uint64_t table_bytes;
	uint64_t lock_addr;
	uint64_t stripes;
	uint64_t marks_offset;
	uint64_t scratch_offset;
	uint64_t dir_offset;
	uint64_t dir_entries;
	uint64_t segment_bytes;
	uint64_t connection_id;
	uint64_t instance; /* another after each start of kvd */
	uint64_t hash_seed; /* of keys: see hash.h; it goes with the instance */
	uint32_t table_rkey;
	uint32_t lock_rkey; /* 0: locks are asked for (WIRE_LOCK), if there are any */
	uint32_t workers;
	uint32_t credits;
	uint32_t message_bytes_max;
	uint32_t hints_every; /* of so many GETs one is to be told (WIRE_HINTS); 0: none */
	uint32_t hint_shift;  /* what is told: the item's offset in the table >> hint_shift */
	uint16_t role; /* enum role of common/auth/file.h: what the queue pair may, and kvd does for it */
	uint16_t flags; /* WIRE_WELCOME_* */
	uint64_t reign; /* of the cluster's primary that the connection is with; 0: it is none yet */
};
#define WIRE_WELCOME_LEASE 1u /* kvd is of a cluster: what was READ counts under a lease only */
#define WIRE_HINTS_MAX 1024u /* in a message */
static_assert(sizeof(struct wire_welcome) == 136, "wire");

/* What a proof covers of the hello; unused bytes are 0. */
struct wire_signed {
	uint64_t value_addr;
	uint64_t value_checksum;
	uint32_t value_rkey;
	uint16_t depth;
	uint16_t name_bytes;
	uint64_t space; /* of struct wire_connect */
	uint8_t name[WIRE_NAME_BYTES_MAX];
};
static_assert(sizeof(struct wire_signed) == 64, "wire");

enum wire_txn_kind { WIRE_TXN_CHECK = 0, WIRE_TXN_PUT = 1, WIRE_TXN_DELETE = 2 };

/* What a key's version must be for the transaction to take place: its version, or: */
#define WIRE_TXN_ABSENT 0ull
#define WIRE_TXN_ANY (~0ull)

struct wire_txn {
	uint64_t version;
	uint32_t value_bytes;
	uint16_t key_bytes;
	uint8_t kind; /* enum wire_txn_kind */
	uint8_t unused;
};
static_assert(sizeof(struct wire_txn) == 16, "wire");

/* A page of WIRE_KEYS: reply.value_bytes of these, one after another. */
struct wire_key {
	uint64_t value_bytes;
	uint16_t key_bytes;
	uint8_t key[];
} __attribute__((packed));
static_assert(sizeof(struct wire_key) == 10, "wire");

#endif
