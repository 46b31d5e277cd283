/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees of files: put-tree, get-tree, check-tree.
 *
 * All three make a list first, then run it through a window of operations in
 * flight.  What is wrong with one file or key is told, counted and passed over;
 * trouble with the server ends the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/command/tree.h"
#include "client/cli/file/files.h"
#include "client/cli/file/inside.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/session.h"
#include "client/cli/session/window.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/word.h"

#define TOLD_MAX 20 /* files with trouble, by name */

enum { TREE_PREFIX };

static const struct cli_option tree_options[] = {
	[TREE_PREFIX] = { "prefix", 'p', "P", "what the keys begin with; default nothing" },
	{ 0 },
};

struct tree {
	struct cli *cli;
	const char *name; /* of the command */
	char *folder;
	int root; /* get-tree: the folder, open; -1: not yet */
	const struct cli_word *prefix;
	struct cli_files files;
	struct cli_window *window;
	struct cli_progress progress;
	char key[KVD_KEY_BYTES_MAX + 2];
	size_t told;
	size_t failed;
	size_t unequal; /* check-tree: that differ or are not there */
	int status;     /* CLI_SERVER: no more to do */
};

static void print_trouble(struct tree *tree, const char *path, const char *why)
{
	cli_progress_hide(&tree->progress);
	fprintf(stderr, "kvcli: %s: ", tree->name);
	if (cli_word_is_text(path, strlen(path), false))
		fputs(path, stderr);
	else
		cli_word_quote(stderr, path, strlen(path));
	fprintf(stderr, ": %s\n", why);
}

static void tell(struct tree *tree, int status, const char *path, const char *why)
{
	if (tree->told < TOLD_MAX || status == CLI_SERVER)
		print_trouble(tree, path, why);
	else if (tree->told == TOLD_MAX)
		fprintf(stderr, "kvcli: %s: more such files are only counted\n",
			tree->name);
	tree->told++;
	if (status == CLI_FALSE)
		tree->unequal++;
	else
		tree->failed++;
	if (status > tree->status)
		tree->status = status;
}

/* folder/path; NULL for want of memory. */
static char *join(const char *folder, const char *path)
{
	size_t bytes = strlen(folder) + strlen(path) + 2;
	char *joined = malloc(bytes);

	if (joined)
		snprintf(joined, bytes, "%s/%s", folder, path);
	return joined;
}

/* The key of a file, in tree->key.  0: too long. */
static size_t make_key(struct tree *tree, const struct cli_file *file)
{
	size_t bytes = tree->prefix->bytes + file->path_bytes;

	if (bytes > KVD_KEY_BYTES_MAX)
		return 0;
	if (tree->prefix->bytes)
		memcpy(tree->key, tree->prefix->data, tree->prefix->bytes);
	memcpy(tree->key + tree->prefix->bytes, file->path, file->path_bytes);
	return bytes;
}

static int load(struct tree *tree, const struct cli_file *file, struct cli_value *value)
{
	char *path = join(tree->folder, file->path);
	int error = path ? cli_value_load(value, path) : ENOMEM;

	free(path);
	return error;
}

static void save(struct tree *tree, const struct cli_file *file, const struct cli_answer *answer)
{
	int error = cli_inside_save(tree->root, file->path, answer->value, answer->value_bytes);

	if (error == ELOOP)
		tell(tree, CLI_USAGE, file->path, "a symbolic link is in the way, which could lead out "
						  "of the folder: remove it first");
	else if (error)
		tell(tree, CLI_USAGE, file->path, cli_value_error(error));
	else
		cli_progress_add(&tree->progress, answer->value_bytes);
}

static void compare(struct tree *tree, const struct cli_file *file,
		    const struct cli_answer *answer)
{
	struct cli_value value;
	int error = load(tree, file, &value);

	if (error) {
		tell(tree, CLI_USAGE, file->path, cli_value_error(error));
		return;
	}
	if (value.bytes != answer->value_bytes)
		tell(tree, CLI_FALSE, file->path, "the value's length differs");
	else if (memcmp(value.data, answer->value, value.bytes) != 0)
		tell(tree, CLI_FALSE, file->path, "the value's bytes differ");
	else
		cli_progress_add(&tree->progress, value.bytes);
	cli_value_free(&value);
}

static void answer_put(void *arg, const struct cli_answer *answer)
{
	struct tree *tree = arg;
	const struct cli_file *file = answer->tag;

	if (answer->result < 0)
		tell(tree, cli_status(answer->result), file->path, answer->error);
	else
		cli_progress_add(&tree->progress, answer->value_bytes);
}

/* A key that went away since the list was made is none to write. */
static void answer_get(void *arg, const struct cli_answer *answer)
{
	struct tree *tree = arg;
	const struct cli_file *file = answer->tag;

	if (answer->result < 0)
		tell(tree, cli_status(answer->result), file->path, answer->error);
	else if (answer->result == KVD_OK)
		save(tree, file, answer);
}

static void answer_check(void *arg, const struct cli_answer *answer)
{
	struct tree *tree = arg;
	const struct cli_file *file = answer->tag;

	if (answer->result < 0)
		tell(tree, cli_status(answer->result), file->path, answer->error);
	else if (answer->result != KVD_OK)
		tell(tree, CLI_FALSE, file->path, "not found");
	else
		compare(tree, file, answer);
}

static void put_file(struct tree *tree, struct cli_file *file, size_t key_bytes)
{
	struct cli_value value;
	int error = load(tree, file, &value);

	if (error)
		tell(tree, CLI_USAGE, file->path, cli_value_error(error));
	else
		cli_window_put(tree->window, tree->key, key_bytes, &value, file);
}

static void get_file(struct tree *tree, struct cli_file *file, size_t key_bytes)
{
	cli_window_get(tree->window, tree->key, key_bytes, file);
}

static void run(struct tree *tree, void (*submit)(struct tree *, struct cli_file *, size_t))
{
	cli_progress_begin(&tree->progress, tree->name, tree->files.count,
			   tree->files.bytes);
	for (size_t i = 0; i < tree->files.count && tree->status != CLI_SERVER; i++) {
		if (cli_interrupted())
			break;
		struct cli_file *file = &tree->files.file[i];
		size_t key_bytes = make_key(tree, file);
		if (key_bytes > 0)
			submit(tree, file, key_bytes);
		else
			tell(tree, CLI_USAGE, file->path,
			     "with the prefix it is longer than a key, 1,024 bytes");
	}
	cli_window_drain(tree->window);
}

/* One line, which is the answer of the command. */
static void sum_up(struct tree *tree)
{
	cli_progress_end(&tree->progress);
	if (tree->status == CLI_SERVER || cli_interrupted())
		printf(", stopped early");
	if (tree->unequal)
		printf(", %zu differ or are missing", tree->unequal);
	if (tree->failed)
		printf(", %zu failed", tree->failed);
	if (tree->files.left_out)
		printf(", %zu left out that are no regular files", tree->files.left_out);
	putchar('\n');
}

static int find_files(struct tree *tree)
{
	char where[256];
	int error = cli_files_find(&tree->files, tree->folder, where, sizeof where);

	if (error)
		return cli_fail(tree->cli, CLI_USAGE, "%s: %s: %s", tree->name, where,
				strerror(error));
	return CLI_DONE;
}

static int collect_key(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	struct tree *tree = arg;
	const char *path = (const char *)key + tree->prefix->bytes;

	return !cli_files_add(&tree->files, path, key_bytes - tree->prefix->bytes, value_bytes);
}

/* Takes out what would not stay in the folder. */
static void refuse_outside(struct tree *tree)
{
	struct cli_files *files = &tree->files;
	size_t kept = 0;

	for (size_t i = 0; i < files->count; i++) {
		struct cli_file *file = &files->file[i];
		if (cli_files_stays_inside(file->path, file->path_bytes)) {
			files->file[kept++] = *file;
		} else {
			tell(tree, CLI_USAGE, file->path, "it is no path that stays in the folder");
			files->bytes -= file->bytes;
			free(file->path);
		}
	}
	files->count = kept;
}

/* 0, or an errno value. */
static int open_root(struct tree *tree)
{
	if (mkdir(tree->folder, 0777) && errno != EEXIST)
		return errno;
	tree->root = open(tree->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tree->root < 0 ? errno : 0;
}

static int find_keys(struct tree *tree)
{
	const struct cli_word *prefix = tree->prefix;
	int result, status;
	kvd_session *session = cli_connect(tree->cli, &status);

	if (!session)
		return status;
	result = kvd_keys(session, prefix->bytes ? prefix->data : "", prefix->bytes, collect_key,
			  tree);
	if (result < 0)
		return cli_fail_session(tree->cli, result);
	int error = open_root(tree);
	if (error)
		return cli_fail(tree->cli, CLI_USAGE, "get-tree: %s: %s", tree->folder,
				error == ENOTDIR ? "it is a file, and no folder" : strerror(error));
	cli_files_sort(&tree->files);
	refuse_outside(tree);
	return CLI_DONE;
}

static int run_tree(struct cli *cli, const struct cli_args *args, const char *name,
		    int (*find)(struct tree *),
		    void (*submit)(struct tree *, struct cli_file *, size_t),
		    void (*answer)(void *, const struct cli_answer *))
{
	struct tree tree = { .cli = cli, .name = name, .root = -1, .prefix = &args->option[TREE_PREFIX] };
	int status;

	if (!cli_connect(cli, &status))
		return status;
	tree.folder = cli_word_string(&args->operand[0]);
	tree.window = cli_window_new(cli, answer, &tree);
	if (tree.folder && tree.window) {
		status = find(&tree);
		if (status == CLI_DONE) {
			run(&tree, submit);
			sum_up(&tree);
			status = tree.status;
		}
	} else {
		status = cli_fail(cli, CLI_USAGE, "%s: no memory, or a zero byte in the path", name);
	}
	cli_window_delete(&tree.window);
	cli_files_free(&tree.files);
	if (tree.root >= 0)
		close(tree.root);
	free(tree.folder);
	return status;
}

static int run_put_tree(struct cli *cli, const struct cli_args *args)
{
	return run_tree(cli, args, "put-tree", find_files, put_file, answer_put);
}

const struct cli_command cli_put_tree = {
	.name = "put-tree",
	.arguments = "DIR",
	.summary = "store a folder's files",
	.help = "Stores each regular file below DIR. The key is the file's path from DIR, as in\n"
		"lib/a.txt. Symbolic links and empty folders are left out.",
	.options = tree_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_put_tree,
};

static int run_get_tree(struct cli *cli, const struct cli_args *args)
{
	return run_tree(cli, args, "get-tree", find_keys, get_file, answer_get);
}

const struct cli_command cli_get_tree = {
	.name = "get-tree",
	.arguments = "DIR",
	.summary = "write keys as files",
	.help = "Writes each key as a file below DIR. DIR is made if need be. A / in a key makes\n"
		"a folder. The prefix is not part of the path. A key that would lead out of DIR\n"
		"(.. or a leading /) is an error, and is left out. So is one whose file a\n"
		"symbolic link in DIR would lead to.",
	.options = tree_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_get_tree,
};

static int run_check_tree(struct cli *cli, const struct cli_args *args)
{
	return run_tree(cli, args, "check-tree", find_files, get_file, answer_check);
}

const struct cli_command cli_check_tree = {
	.name = "check-tree",
	.arguments = "DIR",
	.summary = "compare files with values",
	.help = "Reads the value of each file that put-tree would store, and compares every byte.\n"
		"The status is 1 if one differs or is not there.",
	.options = tree_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_check_tree,
};
