/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's shell on a terminal: what Tab offers, what is kept as history, lines and interrupts.
 * The library that edits lines is made up here. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/command/table.h"
#include "client/cli/edit.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/shell.h"
#include "tests/unit/client/commands.h"

#ifdef HAVE_LIBEDIT
#include <editline/readline.h>

/* ------------------------------------------------------------------ libedit */

#define CTRL_C "\003"
#define TAB "\t" /* then a line: of which the last word is completed */

static const char *const *typed; /* lines, NULL: the end */
static char prompts[4096], offered[4096], history[4096];
static char *offer[] = { NULL };

static void add(char *to, const char *format, const char *text)
{
	size_t used = strlen(to);

	snprintf(to + used, sizeof history - used, format, text);
}

const char *rl_readline_name;
char *rl_line_buffer;
int rl_attempted_completion_over;
rl_completion_func_t *rl_attempted_completion_function;
/* Its type is that of the header, whichever version. */
__typeof__(rl_completer_word_break_characters) rl_completer_word_break_characters;

int rl_initialize(void)
{
	add(history, "%s", "begin;");
	return 0;
}

void using_history(void)
{
	add(history, "%s", "using;");
}

void stifle_history(int lines)
{
	add(history, lines == 1000 ? "%s" : "wrong %s", "1000 lines;");
}

int read_history(const char *path)
{
	add(history, "read %s;", path);
	return 0;
}

int write_history(const char *path)
{
	mode_t mask = umask(0);

	umask(mask);
	assert_int_equal(mask, 077);
	add(history, "write %s;", path);
	return 0;
}

int add_history(const char *line)
{
	add(history, "add %s;", line);
	return 0;
}

void clear_history(void)
{
	add(history, "%s", "clear;");
}

char **rl_completion_matches(const char *text, rl_compentry_func_t *next)
{
	char *match;

	for (int again = 0; (match = next(text, again)); again = 1) {
		add(offered, "%s ", match);
		free(match);
	}
	return offer;
}

/* What Tab offers behind this line. */
static const char *tab(const char *line)
{
	static char buffer[256];
	const char *word = strrchr(line, ' ') ? strrchr(line, ' ') + 1 : line;
	char **got;

	snprintf(buffer, sizeof buffer, "%s", line);
	rl_line_buffer = buffer;
	offered[0] = '\0';
	rl_attempted_completion_over = 7;
	got = rl_attempted_completion_function(word, (int)(word - line), (int)strlen(line));
	if (!got)
		return rl_attempted_completion_over ? "nothing" : "files";
	assert_ptr_equal(got, offer);
	assert_int_equal(rl_attempted_completion_over, 1);
	return offered;
}

char *readline(const char *prompt)
{
	const char *line = *typed ? *typed++ : NULL;

	add(prompts, "%s|", prompt);
	if (line && !strcmp(line, CTRL_C))
		raise(SIGINT);
	return line && strcmp(line, CTRL_C) ? strdup(line) : NULL;
}

/* ------------------------------------------------------------------ what is made up */

static bool terminal[2];
static char folder[] = "/tmp/kvd-edit.XXXXXX";

int isatty(int fd)
{
	return fd < 2 && terminal[fd];
}

static int set_up(void **state)
{
	terminal[0] = terminal[1] = true;
	prompts[0] = history[0] = '\0';
	cli_interrupt_forget();
	return made_begin(state);
}

static int run_shell(struct cli *cli, const struct cli_args *args)
{
	(void)args;
	return cli_shell(cli);
}

static const struct cli_command shell = { .run = run_shell };

/* ------------------------------------------------------------------ Tab */

static struct cli asked = { .server = "here:1" };

static int begin_to_edit(void **state)
{
	int rc = set_up(state);

	unsetenv("XDG_STATE_HOME");
	setenv("HOME", "", 1);
	cli_edit_begin(&asked);
	return rc;
}

static int end_to_edit(void **state)
{
	(void)state;
	cli_edit_end();
	cli_disconnect(&asked);
	return 0;
}

static void tab_knows_commands(void **state)
{
	char all[1024] = "";

	(void)state;
	for (size_t i = 0; cli_commands[i]; i++)
		strcat(strcat(all, cli_commands[i]->name), " ");
	assert_string_equal(tab(""), all);
	assert_string_equal(tab("  "), all);
	assert_string_equal(tab("exi"), "exists ");
	assert_string_equal(tab("  ex"), "exists export ");
	assert_string_equal(tab("\t ex"), "exists export ");
	assert_string_equal(tab("ping"), "ping ");
	assert_string_equal(tab("pings"), "");
	assert_string_equal(tab("-"), "");
	assert_int_equal(made.clients, 0);
}

static void tab_knows_options(void **state)
{
	(void)state;
	assert_string_equal(tab("put a --if"), "--if-absent --if-present --if-version ");
	assert_string_equal(tab("put a --f"), "--file --flags ");
	assert_string_equal(tab("get a -"), "--output --json --help ");
	assert_string_equal(tab("  get --json"), "--json ");
	assert_string_equal(tab("\tget --he"), "--help ");
	assert_string_equal(tab("del --"), "--help ");
	assert_string_equal(tab("del --helps"), "");
	assert_string_equal(tab("ge --"), "");
	assert_string_equal(tab("gets --"), "");
	assert_string_equal(tab("gex --"), "");
	assert_int_equal(made.clients, 0);
}

static void tab_knows_keys(void **state)
{
	static const char *const commands[] = { "put", "get", "del", "exists", "incr", "decr", "append",
						"prepend", "touch", "ttl", "keys", "lock", "update" };
	static const char *const others[] = { "user \"two", "user\ttab", "user\"", "user's", "user\n",
					      "user two", "-user", "#user", " user", "\tuser", "\"user", "'user" };
	char line[64];

	(void)state;
	for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
		made_put(others[i], "");
	made_put("user:ada", "");
	made_put("user-#:bob", "");
	made_put("u", "");
	for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++) {
		snprintf(line, sizeof line, "%s user", commands[i]);
		assert_string_equal(tab(line), "user:ada user-#:bob ");
	}
	assert_string_equal(tab("get a user:"), "user:ada ");
	assert_string_equal(tab("get v"), "");
	assert_string_equal(tab("get "), "user:ada user-#:bob u ");
	assert_memory_equal(made.calls, "keys user\nkeys user\n", 20);
	assert_string_equal(tab("ping u"), "nothing");
	assert_string_equal(tab("flush u"), "nothing");
	assert_string_equal(tab("ge u"), "nothing");
	assert_string_equal(tab("put-tree u"), "files");
	assert_string_equal(tab("get-tree u"), "files");
	assert_string_equal(tab("check-tree u"), "files");
	assert_string_equal(tab("export u"), "files");
	assert_string_equal(tab("import u"), "files");
}

static void tab_knows_no_more_than_a_hundred(void **state)
{
	char key[16], want[4096] = "";

	(void)state;
	for (unsigned i = 0; i < 101; i++) {
		snprintf(key, sizeof key, "key%03u", i);
		made_put(key, "");
		if (i < 100)
			strcat(strcat(want, key), " ");
	}
	assert_string_equal(tab("get k"), want);
	assert_string_equal(made.calls, "keys k\nkeys stopped\n");
	cli_interrupt_catch();
	raise(SIGINT);
	assert_string_equal(tab("get k"), "key000 ");
	cli_interrupt_forget();
	signal(SIGINT, SIG_DFL);
	cli_disconnect(&asked);
	fails("client_new", KVD_ECONNECT);
	assert_string_equal(tab("get k"), "");
}

/* ------------------------------------------------------------------ history */

static void expect_folder(const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof path, "%s%s", folder, name);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* The environment, and what is read then: "" for nothing. */
static void begins_with(const char *state_home, const char *home, const char *file)
{
	char want[512], path[256];
	struct cli cli = { .server = "here:1" };

	history[0] = '\0';
	if (state_home)
		setenv("XDG_STATE_HOME", state_home, 1);
	else
		unsetenv("XDG_STATE_HOME");
	if (home)
		setenv("HOME", home, 1);
	else
		unsetenv("HOME");
	cli_edit_begin(&cli);
	snprintf(path, sizeof path, "%s%s", folder, file);
	snprintf(want, sizeof want, "begin;using;1000 lines;%s%s%s", *file ? "read " : "",
		 *file ? path : "", *file ? ";" : "");
	assert_string_equal(history, want);
	history[0] = '\0';
	cli_edit_keep("get a");
	snprintf(want, sizeof want, "add get a;%s%s%s", *file ? "write " : "", *file ? path : "",
		 *file ? ";" : "");
	assert_string_equal(history, want);
	history[0] = '\0';
	cli_edit_keep(" get secret");
	cli_edit_keep("");
	assert_string_equal(history, "");
	cli_edit_end();
	assert_string_equal(history, "clear;");
}

static void history_is_kept(void **state)
{
	mode_t mask = umask(0);
	char state_home[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(state_home, sizeof state_home, "%s/other", folder);
	begins_with(NULL, NULL, "");
	begins_with("", "home", "");
	begins_with("relative", "", "");
	begins_with("relative", folder, "/.local/state/kvcli_history");
	expect_folder("/.local");
	expect_folder("/.local/state");
	begins_with(NULL, folder, "/.local/state/kvcli_history");
	begins_with(state_home, folder, "/other/kvcli_history");
	expect_folder("/other");
	assert_int_equal(umask(mask), 0);
	assert_string_equal(rl_readline_name, "kvcli");
	assert_string_equal(rl_completer_word_break_characters, " \t");
}

static int remove_folders(void **state)
{
	static const char *const names[] = { "/other", "/.local/state", "/.local", "" };
	char path[64];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof path, "%s%s", folder, names[i]);
		rmdir(path);
	}
	return set_up(state);
}

/* ------------------------------------------------------------------ lines */

#define HELLO "made0, because it is made up\nhelp lists the commands, quit leaves.\n"

static void lines_are_answered(void **state)
{
	static const char *const lines[] = { "put a 1", "get a none", "", " get a", "# \"", "frobnicate", "quit",
					     "get a", NULL };

	(void)state;
	typed = lines;
	RUNS(0,
	     HELLO "OK\n1\n(not found)\n1\nERROR no command \"frobnicate\"; help lists them\n", "", &shell, "");
	assert_string_equal(prompts, "here:1> |here:1> |here:1> |here:1> |here:1> |here:1> |here:1> |");
	assert_memory_equal(history, "begin;using;", 12);
	assert_non_null(strstr(history, "add put a 1;"));
	assert_non_null(strstr(history, "add quit;"));
	assert_null(strstr(history, "add  get a;"));
	assert_ptr_equal(*typed, lines[7]);
	assert_int_equal(strcmp(history + strlen(history) - 6, "clear;"), 0);
}

static void the_end_leaves(void **state)
{
	static const char *const lines[] = { "exit", NULL }, *const none[] = { NULL };
	struct cli cli = { .timeout_ms = 7 };
	char name[200], want[200];

	(void)state;
	typed = lines;
	RUNS(0, HELLO, "", &shell, "");
	typed = none;
	RUNS(0, HELLO "\n", "", &shell, "");
	memset(name, 'n', 199);
	name[199] = '\0';
	cli.server = name;
	prompts[0] = '\0';
	assert_int_equal(printed_run(&cli, NULL, run_shell, ""), 0);
	snprintf(want, sizeof want, "%.120s> |", name);
	assert_string_equal(prompts, want);
	cli_disconnect(&cli);
	fails("client_new", KVD_ECONNECT);
	RUNS(3, "", "kvcli: here:1: nobody is there\n", &shell, "");
}

static void quotes_go_on_in_the_next_line(void **state)
{
	static const char *const lines[] = { "put poem \"roses", "", "violets\"", "get poem", "put a 'one",
					     NULL };

	(void)state;
	typed = lines;
	RUNS(0, HELLO "OK\nroses\n\nviolets\n\n", "", &shell, "");
	assert_string_equal(prompts, "here:1> |... |... |here:1> |here:1> |... |");
	assert_non_null(strstr(history, "add put poem \"roses\n\nviolets\";"));
	assert_null(strstr(history, "one"));
	assert_null(made_value("a"));
}

static bool interrupted;

static void interrupt_it(void)
{
	if (strstr(made.calls, "ping") && !interrupted) {
		interrupted = true;
		raise(SIGINT);
	}
}

static void an_interrupt_ends_the_line(void **state)
{
	static const char *const lines[] = { CTRL_C, "put a 'one", CTRL_C, "put b 2", "ping --count 5", "get b",
					     NULL };

	(void)state;
	interrupted = false;
	made.asked = interrupt_it;
	typed = lines;
	RUNS(0, HELLO "\n\nOK\n(interrupted)\n2\n\n", "", &shell, "");
	assert_non_null(strstr(made.calls, "ping\n"));
	assert_null(strstr(made.calls, "ping\nping\n")); /* it was the last of five */
	assert_null(made_value("a"));
	assert_string_equal(prompts, "here:1> |here:1> |... |here:1> |here:1> |here:1> |here:1> |");
}

/* Started so that nobody can interrupt it: that stays. */
static void an_interrupt_may_be_ignored(void **state)
{
	struct sigaction now;

	(void)state;
	signal(SIGINT, SIG_IGN);
	cli_interrupt_catch();
	raise(SIGINT);
	assert_false(cli_interrupted());
	sigaction(SIGINT, NULL, &now);
	assert_ptr_equal(now.sa_handler, SIG_IGN);
	signal(SIGINT, SIG_DFL);
	cli_interrupt_catch();
	sigaction(SIGINT, NULL, &now);
	assert_int_equal(now.sa_flags & SA_RESTART, 0);
	raise(SIGINT);
	assert_true(cli_interrupted());
	cli_interrupt_forget();
	assert_false(cli_interrupted());
	signal(SIGINT, SIG_DFL);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)
#define TAB_TEST(name) cmocka_unit_test_setup_teardown(name, begin_to_edit, end_to_edit)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TAB_TEST(tab_knows_commands),
		TAB_TEST(tab_knows_options),
		TAB_TEST(tab_knows_keys),
		TAB_TEST(tab_knows_no_more_than_a_hundred),
		cmocka_unit_test_setup_teardown(history_is_kept, set_up, remove_folders),
		TEST(lines_are_answered),
		TEST(the_end_leaves),
		TEST(quotes_go_on_in_the_next_line),
		TEST(an_interrupt_ends_the_line),
		TEST(an_interrupt_may_be_ignored),
	};

	setenv("TERM", "dumb", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 77; /* plain lines: kvcli_batch.sh has them */
}
#endif
