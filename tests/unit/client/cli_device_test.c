/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli devices, counters and doctor: what they print of devices and of a sysfs that were made up. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/cli/cluster/doctor.h"
#include "client/cli/command/device.h"
#include "client/cli/command/device_json.h"
#include "client/cli/session/front.h"
#include "common/rdma/doctor.h"
#include "common/verbs/verbs.h"
#include "tests/unit/client/printed.h"

/* ------------------------------------------------------------------ sysfs */

#define SYSFS "/sys/class/infiniband"

static const char *const files[][2] = {
	{ "mlx0/ports/1/rate", "100 Gb/sec (4X EDR)\n" },
	{ "mlx0/ports/1/gid_attrs/types/0", "RoCE v2\n" },
	{ "mlx0/ports/1/gid_attrs/ndevs/0", "eth0\n" },
	{ "mlx0/ports/2/gid_attrs/types/1", "IB/RoCE v1" },
	{ "mlx0/ports/1/hw_counters/out_of_sequence", "3\n" },
	{ "mlx0/ports/1/hw_counters/lifespan", "10\n" },
	{ "mlx0/ports/1/hw_counters/np_cnp_sent", "0\n" },
	{ "mlx0/ports/1/hw_counters/nobody_knows", "18446744073709551615\n" },
	{ "mlx0/ports/1/counters/link_downed", "N/A\n" },
	{ "mlx0/ports/1/counters/.hidden", "7\n" },
	{ "mlx0/ports/2/counters/link_downed", "2\n" },
	{ "mlx0/diag_counters/np_cnp_sent", "5\n" },
	{ "mlx1/hw_counters/zero", "0\n" },
};

#define FILES (sizeof files / sizeof *files)

static bool has_devices;

FILE *fopen(const char *path, const char *mode)
{
	assert_string_equal(mode, "re");
	for (size_t i = 0; i < FILES; i++)
		if (!strncmp(path, SYSFS "/", sizeof SYSFS) && !strcmp(path + sizeof SYSFS, files[i][0]))
			return fmemopen((char *)files[i][1], strlen(files[i][1]), "r");
	errno = ENOENT;
	return NULL;
}

/* In the order of the files, the last first. */
int scandir(const char *folder, struct dirent ***list, int (*is)(const struct dirent *entry),
	    int (*compare)(const struct dirent **a, const struct dirent **b))
{
	size_t bytes = strlen(folder + sizeof SYSFS - 1);
	int count = 0;

	assert_true(!strncmp(folder, SYSFS, sizeof SYSFS - 1));
	*list = NULL;
	if (!has_devices)
		return -1;
	*list = calloc(FILES, sizeof **list);
	for (size_t i = FILES; i-- > 0;) {
		char path[128];
		snprintf(path, sizeof path, "/%s", files[i][0]);
		const char *name = path + bytes + 1;
		struct dirent *entry = calloc(1, sizeof *entry);
		if (!strncmp(path, folder + sizeof SYSFS - 1, bytes) && path[bytes] == '/') {
			snprintf(entry->d_name, sizeof entry->d_name, "%.*s", (int)strcspn(name, "/"), name);
			for (int k = 0; k < count && *entry->d_name; k++)
				if (!strcmp((*list)[k]->d_name, entry->d_name))
					*entry->d_name = '\0';
		}
		if (*entry->d_name && is(entry))
			(*list)[count++] = entry;
		else
			free(entry);
	}
	if (!count) {
		free(*list);
		errno = ENOENT;
		return -1;
	}
	for (int i = 0; i < count; i++)
		for (int k = i + 1; k < count; k++) {
			struct dirent *first = (*list)[i];
			if (compare((const struct dirent **)&(*list)[i], (const struct dirent **)&(*list)[k]) > 0) {
				(*list)[i] = (*list)[k];
				(*list)[k] = first;
			}
		}
	return count;
}

/* ------------------------------------------------------------------ devices */

static struct ibv_device devices[3];
static struct ibv_context contexts[3];
static int opened, listed, devices_count, fails;

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **list = calloc(4, sizeof *list);

	for (int i = 0; i < devices_count; i++)
		list[i] = &devices[i];
	*num = devices_count;
	listed++;
	return list;
}

static struct ibv_device **get_no_list(int *num)
{
	*num = 7;
	return NULL;
}

static void free_device_list(struct ibv_device **list)
{
	listed--;
	free(list);
}

static __be64 get_device_guid(struct ibv_device *device)
{
	return htobe64(device == &devices[0] ? 0x0123456789abcdefull : 0x00f0000000000001ull);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	int i = (int)(device - devices);

	if (i == 2) {
		errno = EACCES;
		return NULL;
	}
	contexts[i].device = device;
	opened++;
	return &contexts[i];
}

static int close_device(struct ibv_context *ctx)
{
	(void)ctx;
	opened--;
	return 0;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	if (fails) {
		errno = ENODEV;
		return ENODEV;
	}
	*attr = (struct ibv_device_attr){
		.phys_port_cnt = ctx == contexts ? 3 : 1, .atomic_cap = ctx == contexts ? IBV_ATOMIC_HCA : IBV_ATOMIC_GLOB,
		.max_qp = 1, .max_qp_wr = 2, .max_sge = 3, .max_cq = 4, .max_cqe = 5, .max_srq = 6, .max_srq_wr = 7,
		.max_qp_init_rd_atom = 8, .max_qp_rd_atom = 9, .max_mr = 10,
		.max_mr_size = ctx == contexts ? 1ull << 62 : (1ull << 62) - 1,
	};
	if (ctx == contexts)
		strcpy(attr->fw_ver, "20.1");
	else
		attr->atomic_cap = IBV_ATOMIC_NONE;
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	if (port == 3) {
		errno = EIO;
		return EIO;
	}
	*attr = (struct ibv_port_attr){
		.state = port == 1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.link_layer = port == 1 && ctx == contexts ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
		.active_mtu = IBV_MTU_1024, .max_mtu = IBV_MTU_4096, .lid = 21, .lmc = port == 1 ? 0 : 2, .sm_lid = 22,
		.sm_sl = 23, .subnet_timeout = 24, .max_vl_num = port == 1 ? 4 : 5, .bad_pkey_cntr = 25,
		.qkey_viol_cntr = 26, .pkey_tbl_len = 4, .gid_tbl_len = 2,
	};
	return 0;
}

/* One that is unset has its prefix only; of the second port the first can't be asked. */
static int query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	if (port == 2 && index == 0)
		return EIO;
	memset(gid, 0, sizeof *gid);
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	gid->raw[port == 1 && index == 0 ? 8 : port == 2 ? 15 : 7] = 1;
	return 0;
}

static int query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	static const uint16_t keys[] = { 0xffff, 0x0012, 0, 3 };

	(void)ctx;
	(void)port;
	assert_in_range(index, 0, 3);
	*pkey = htobe16(keys[index]);
	return index == 3 ? EIO : 0;
}

const struct verbs verbs_system = {
	.get_device_list = get_device_list, .free_device_list = free_device_list,
	.get_device_guid = get_device_guid, .open_device = open_device, .close_device = close_device,
	.query_device = query_device, .query_port = query_port, .query_gid = query_gid, .query_pkey = query_pkey,
};

static const struct verbs nothing = { .soft = true, .get_device_list = get_no_list };
const struct verbs *const verbs_soft = &nothing;

/* ------------------------------------------------------------------ what is asked besides */

static unsigned found; /* by the doctor of this machine, and by that of a cluster */
static const char *front_mark;
static char fronts[300];

unsigned doctor_examine_each(void (*each)(void *arg, const char *mark, const char *what, const char *text),
			     void *arg, uint64_t memory_bytes)
{
	assert_int_equal(memory_bytes, 0);
	each(arg, "ok", "limits", "they are \"well\"");
	return found;
}

unsigned cluster_doctor(struct cli *cli, cluster_each *each)
{
	(void)cli;
	each(stdout, "note", "cluster", "so it is");
	return found;
}

void cli_front_examine(const char *where, struct cli_front *front)
{
	snprintf(fronts + strlen(fronts), sizeof fronts - strlen(fronts), "%s;", where);
	front->is_there = front_mark && *where != '/';
	front->mark = front_mark ? front_mark : "FIX";
	snprintf(front->text, sizeof front->text, "%.40s it is", where);
}

const char *kvd_session_error(const kvd_session *session)
{
	(void)session;
	return "";
}

const char *kvd_strerror(int result)
{
	(void)result;
	return "";
}

static int set_up(void **state)
{
	(void)state;
	memset(devices, 0, sizeof devices);
	for (int i = 0; i < 3; i++)
		snprintf(devices[i].name, sizeof devices[i].name, "mlx%d", i);
	devices[0].node_type = IBV_NODE_CA;
	devices[1].node_type = IBV_NODE_RNIC;
	devices_count = 3;
	has_devices = true;
	found = 0;
	fails = 0;
	front_mark = NULL;
	fronts[0] = '\0';
	return opened || listed;
}

static int run(const struct cli_command *command, const char *line)
{
	struct cli cli = { .server = "here" };
	int status = printed_run(&cli, command->options, command->run, line);

	assert_int_equal(opened, 0);
	assert_int_equal(listed, 0);
	return status;
}

/* ------------------------------------------------------------------ what is printed of devices */

static void devices_for_people(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_devices, ""), 0);
	assert_string_equal(printed_out,
			    "mlx0 (system)\n"
			    "  type           channel adapter, 3 ports\n"
			    "  GUID           0123:4567:89ab:cdef, firmware 20.1\n"
			    "  port 1         active, Ethernet, MTU 1024 of 4096, 100 Gb/sec (4X EDR)\n"
			    "    GID 0        fe80::100:0:0:0, RoCE v2, eth0\n"
			    "  port 2         down, InfiniBand, MTU 1024 of 4096, LID 21\n"
			    "    GID 1        fe80::1, IB/RoCE v1\n"
			    "  port 3         can't be asked: Input/output error\n"
			    "  atomics        among queue pairs of the device (IBV_ATOMIC_HCA)\n"
			    "  limits         1 queue pairs of 2 requests, 3 SGEs each\n"
			    "                 4 CQs of 5 entries; 6 SRQs of 7 requests\n"
			    "                 8 READs and atomics in flight a queue pair, 9 served\n"
			    "                 10 memory regions of any size\n"
			    "mlx1 (system)\n"
			    "  type           RDMA NIC (iWARP), 1 port\n"
			    "  GUID           00f0:0000:0000:0001\n"
			    "  port 1         active, InfiniBand, MTU 1024 of 4096, LID 21\n"
			    "    GID 0        fe80::100:0:0:0\n"
			    "  atomics        none: kvd can't use this device for locks\n"
			    "  limits         1 queue pairs of 2 requests, 3 SGEs each\n"
			    "                 4 CQs of 5 entries; 6 SRQs of 7 requests\n"
			    "                 8 READs and atomics in flight a queue pair, 9 served\n"
			    "                 10 memory regions of 4.0 EiB\n"
			    "mlx2 (system)\n"
			    "  can't be opened Permission denied\n");
	assert_string_equal(printed_err, "");
}

static void devices_with_all_that_is_known(void **state)
{
	(void)state;
	devices_count = 1;
	assert_int_equal(run(&cli_devices, "--verbose"), 0);
	assert_string_equal(printed_out,
			    "mlx0 (system)\n"
			    "  type           channel adapter, 3 ports\n"
			    "  GUID           0123:4567:89ab:cdef, firmware 20.1\n"
			    "  port 1         active, Ethernet, MTU 1024 of 4096, 100 Gb/sec (4X EDR)\n"
			    "    LID          21, LMC 0 (1 path)\n"
			    "    SM           LID 22, SL 23, subnet timeout 24\n"
			    "    VLs          8\n"
			    "    P_Key 0      0xffff, full member\n"
			    "    P_Key 1      0x0012, limited member\n"
			    "    violations   P_Key 25, Q_Key 26\n"
			    "    GID 0        fe80::100:0:0:0, RoCE v2, eth0\n"
			    "  port 2         down, InfiniBand, MTU 1024 of 4096, LID 21\n"
			    "    LID          21, LMC 2 (4 paths)\n"
			    "    SM           LID 22, SL 23, subnet timeout 24\n"
			    "    VLs          15\n"
			    "    P_Key 0      0xffff, full member\n"
			    "    P_Key 1      0x0012, limited member\n"
			    "    violations   P_Key 25, Q_Key 26\n"
			    "    GID 1        fe80::1, IB/RoCE v1\n"
			    "  port 3         can't be asked: Input/output error\n"
			    "  atomics        among queue pairs of the device (IBV_ATOMIC_HCA)\n"
			    "  limits         1 queue pairs of 2 requests, 3 SGEs each\n"
			    "                 4 CQs of 5 entries; 6 SRQs of 7 requests\n"
			    "                 8 READs and atomics in flight a queue pair, 9 served\n"
			    "                 10 memory regions of any size\n");
}

static void devices_for_programs(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_devices, "--json"), 0);
	assert_string_equal(printed_out,
			    "{\"device\":\"mlx0\",\"software\":false,\"type\":\"channel adapter\",\"guid\":"
			    "\"0123456789abcdef\",\"firmware\":\"20.1\",\"atomics\":\"device\","
			    "\"queue_pairs_max\":1,\"requests_max\":2,\"sges_max\":3,\"reads_max\":9,"
			    "\"regions_max\":10,\"ports\":[{\"port\":1,\"state\":\"active\",\"link_layer\":"
			    "\"Ethernet\",\"mtu\":1024,\"mtu_max\":4096,\"lid\":21,\"lmc\":0,\"sm_lid\":22,"
			    "\"sm_sl\":23,\"vls\":8,\"pkeys\":[{\"index\":0,\"pkey\":\"0xffff\"},{\"index\":1,"
			    "\"pkey\":\"0x0012\"}],\"gids\":[{\"index\":0,\"gid\":\"fe80::100:0:0:0\",\"type\":"
			    "\"RoCE v2\",\"interface\":\"eth0\"}]},{\"port\":2,\"state\":\"down\",\"link_layer\":"
			    "\"InfiniBand\",\"mtu\":1024,\"mtu_max\":4096,\"lid\":21,\"lmc\":2,\"sm_lid\":22,"
			    "\"sm_sl\":23,\"vls\":15,\"pkeys\":[{\"index\":0,\"pkey\":\"0xffff\"},{\"index\":1,"
			    "\"pkey\":\"0x0012\"}],\"gids\":[{\"index\":1,\"gid\":\"fe80::1\",\"type\":\"IB/RoCE "
			    "v1\"}]}]}\n"
			    "{\"device\":\"mlx1\",\"software\":false,\"type\":\"RDMA NIC (iWARP)\",\"guid\":"
			    "\"00f0000000000001\",\"firmware\":\"\",\"atomics\":\"none\",\"queue_pairs_max\":1,"
			    "\"requests_max\":2,\"sges_max\":3,\"reads_max\":9,\"regions_max\":10,\"ports\":"
			    "[{\"port\":1,\"state\":\"active\",\"link_layer\":\"InfiniBand\",\"mtu\":1024,"
			    "\"mtu_max\":4096,\"lid\":21,\"lmc\":0,\"sm_lid\":22,\"sm_sl\":23,\"vls\":8,"
			    "\"pkeys\":[{\"index\":0,\"pkey\":\"0xffff\"},{\"index\":1,\"pkey\":\"0x0012\"}],"
			    "\"gids\":[{\"index\":0,\"gid\":\"fe80::100:0:0:0\"}]}]}\n"
			    "{\"device\":\"mlx2\",\"software\":false,\"error\":\"Permission denied\"}\n");
}

static void devices_that_tell_nothing(void **state)
{
	(void)state;
	devices_count = 1;
	fails = 1;
	assert_int_equal(run(&cli_devices, ""), 0);
	assert_string_equal(printed_out, "mlx0 (system)\n  can't be asked No such device\n");
	assert_int_equal(run(&cli_devices, "-j"), 0);
	assert_string_equal(printed_out, "{\"device\":\"mlx0\",\"software\":false,\"error\":\"No such device\"}\n");
}

static void no_device(void **state)
{
	(void)state;
	devices_count = 0;
	assert_int_equal(run(&cli_devices, ""), 1);
	assert_string_equal(printed_out, "no RDMA device of this machine (Soft-RoCE makes one of a network interface:\n"
					 "rdma link add rxe0 type rxe netdev IFACE)\n");
	assert_string_equal(printed_err, "kvcli: no RDMA device, and kvcli was built without the software one\n");
	assert_int_equal(run(&cli_devices, "--json"), 1);
	assert_string_equal(printed_out, "");
}

/* The numbers are those of <infiniband/verbs.h> and of the InfiniBand specification. */
static void words_of_devices(void **state)
{
	static const char *const types[] = { "unknown", "channel adapter", "switch", "router", "RDMA NIC (iWARP)",
					     "usNIC", "usNIC", "unknown" };
	static const char *const states[] = { "no state", "down", "initializing", "armed", "active",
					      "active, deferred", "unknown" };
	static const char *const layers[] = { "unspecified", "InfiniBand", "Ethernet", "unspecified" };
	static const unsigned bytes[] = { 0, 256, 512, 1024, 2048, 4096, 0 }, lanes[] = { 0, 1, 2, 4, 8, 15, 0 };
	union ibv_gid gid = { .raw = { 0 } };

	(void)state;
	for (int i = 0; i < 8; i++) {
		devices[0].node_type = (enum ibv_node_type)i;
		assert_string_equal(cli_node_type(&devices[0]), types[i]);
	}
	for (int i = 0; i < 7; i++) {
		assert_string_equal(cli_port_state((enum ibv_port_state)i), states[i]);
		assert_int_equal(cli_mtu_bytes((enum ibv_mtu)i), bytes[i]);
		assert_int_equal(cli_lanes((uint8_t)i), lanes[i]);
	}
	for (uint8_t i = 0; i < 4; i++)
		assert_string_equal(cli_link_layer(i), layers[i]);
	memset(gid.raw, 0xff, 8);
	assert_false(cli_gid_is_set(&gid));
	for (int i = 8; i < 16; i++) {
		gid.raw[i] = 1;
		assert_true(cli_gid_is_set(&gid));
		gid.raw[i] = 0;
	}
}

/* ------------------------------------------------------------------ counters */

static void counters_for_people(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_counters, ""), 0);
	assert_string_equal(printed_out,
			    "mlx0 port 1\n"
			    "  nobody_knows                     18446744073709551615  \n"
			    "  out_of_sequence                               3  ! packets came out of order: "
			    "some were lost on the way\n"
			    "mlx0 port 2\n"
			    "  link_downed                                   2  ! the link went down\n"
			    "mlx0 as a whole\n"
			    "  np_cnp_sent                                   5  congestion notices sent\n"
			    "mlx1 as a whole\n");
	assert_int_equal(run(&cli_counters, "--all"), 0);
	assert_string_equal(printed_out,
			    "mlx0 port 1\n"
			    "  nobody_knows                     18446744073709551615  \n"
			    "  np_cnp_sent                                   0  congestion notices sent\n"
			    "  out_of_sequence                               3  ! packets came out of order: "
			    "some were lost on the way\n"
			    "mlx0 port 2\n"
			    "  link_downed                                   2  ! the link went down\n"
			    "mlx0 as a whole\n"
			    "  np_cnp_sent                                   5  congestion notices sent\n"
			    "mlx1 as a whole\n"
			    "  zero                                          0  \n");
}

static void counters_for_programs(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_counters, "--json"), 0);
	assert_string_equal(printed_out,
			    "{\"device\":\"mlx0\",\"port\":1,\"counter\":\"nobody_knows\",\"value\":"
			    "18446744073709551615,\"trouble\":false,\"meaning\":\"\"}\n"
			    "{\"device\":\"mlx0\",\"port\":1,\"counter\":\"out_of_sequence\",\"value\":3,"
			    "\"trouble\":true,\"meaning\":\"packets came out of order: some were lost on the "
			    "way\"}\n"
			    "{\"device\":\"mlx0\",\"port\":2,\"counter\":\"link_downed\",\"value\":2,\"trouble\":"
			    "true,\"meaning\":\"the link went down\"}\n"
			    "{\"device\":\"mlx0\",\"counter\":\"np_cnp_sent\",\"value\":5,\"trouble\":false,"
			    "\"meaning\":\"congestion notices sent\"}\n");
	assert_string_equal(printed_err, "");
}

static void no_counters(void **state)
{
	(void)state;
	has_devices = false;
	assert_int_equal(run(&cli_counters, ""), 1);
	assert_string_equal(printed_out, "");
	assert_string_equal(printed_err, "kvcli: this machine has no RDMA device that counts; the software device does "
					 "not\n");
}

/* ------------------------------------------------------------------ doctor */

#define LIMITS "ok    limits           they are \"well\"\n"

static void the_doctor_speaks(void **state)
{
	(void)state;
	assert_int_equal(run(&cli_doctor, ""), 0);
	assert_string_equal(printed_out, LIMITS);
	assert_string_equal(printed_err, "");
	assert_string_equal(fronts, "/run/kvfront/kvfront.sock;127.0.0.1:11211;");
	front_mark = "ok";
	assert_int_equal(run(&cli_doctor, "--cluster"), 0);
	assert_string_equal(printed_out, LIMITS "ok    kvfront          127.0.0.1:11211 it is\n"
					 "note  cluster          so it is\n");
	assert_int_equal(run(&cli_doctor, "--json -c"), 0);
	assert_string_equal(printed_out,
			    "{\"mark\":\"ok\",\"what\":\"limits\",\"text\":\"they are \\\"well\\\"\"}\n"
			    "{\"mark\":\"ok\",\"what\":\"kvfront\",\"text\":\"127.0.0.1:11211 it is\"}\n"
			    "{\"mark\":\"note\",\"what\":\"cluster\",\"text\":\"so it is\"}\n");
}

static void what_the_doctor_counts(void **state)
{
	(void)state;
	front_mark = "FIX";
	assert_int_equal(run(&cli_doctor, ""), 1);
	assert_string_equal(printed_err, "kvcli: 1 thing to put right, marked FIX\n");
	found = 2;
	assert_int_equal(run(&cli_doctor, ""), 1);
	assert_string_equal(printed_err, "kvcli: 3 things to put right, marked FIX\n");
	assert_int_equal(run(&cli_doctor, "--cluster"), 1);
	assert_string_equal(printed_err, "kvcli: 5 things to put right, marked FIX\n");
	assert_int_equal(run(&cli_doctor, "--cluster --json"), 1);
	assert_string_equal(printed_err, "");
}

/* The one that is named is told of, also where nothing is. */
static void the_front_that_is_named(void **state)
{
	char line[300] = "--front=", longest[256];

	(void)state;
	assert_int_equal(run(&cli_doctor, "--front /there"), 1);
	assert_string_equal(fronts, "/there;");
	assert_string_equal(printed_out, LIMITS "FIX   kvfront          /there it is\n");
	fronts[0] = '\0';
	memset(longest, 'x', 255);
	longest[255] = '\0';
	strcat(line, longest);
	assert_int_equal(run(&cli_doctor, line), 1);
	assert_int_equal(strncmp(fronts, longest, 255), 0);
	strcat(line, "x");
	fronts[0] = '\0';
	assert_int_equal(run(&cli_doctor, line), 2);
	assert_string_equal(printed_err, "kvcli: --front wants a socket's path, or HOST:PORT\n");
	assert_int_equal(run(&cli_doctor, "--front ''"), 2);
	assert_string_equal(fronts, "");
	assert_string_equal(printed_out, "");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(devices_for_people),
		TEST(devices_with_all_that_is_known),
		TEST(devices_for_programs),
		TEST(devices_that_tell_nothing),
		TEST(no_device),
		TEST(words_of_devices),
		TEST(counters_for_people),
		TEST(counters_for_programs),
		TEST(no_counters),
		TEST(the_doctor_speaks),
		TEST(what_the_doctor_counts),
		TEST(the_front_that_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
