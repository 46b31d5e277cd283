/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/command/child.h"

#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void pass_on(int number);
static void wake(int number);

/* What kvcli does with them while a command runs: what comes from the terminal comes
 * to the command too. */
static const struct {
	int number;
	void (*handler)(int number);
} signals[CLI_CHILD_SIGNALS] = {
	{ SIGINT, SIG_IGN }, { SIGQUIT, SIG_IGN }, { SIGTERM, pass_on }, { SIGHUP, pass_on },
	{ SIGCHLD, wake },
};

static volatile sig_atomic_t running; /* the pid */

static void pass_on(int number)
{
	int error = errno;

	if (running > 0)
		kill((pid_t)running, number);
	errno = error;
}

/* That it comes is enough, to end a wait. */
static void wake(int number)
{
	(void)number;
}

/* One that is ignored, as by nohup, stays ignored, by the command too. */
static void take_signals(struct cli_child *child, sigset_t *defaults)
{
	sigemptyset(defaults);
	sigaddset(defaults, SIGPIPE); /* which kvcli ignores */
	for (unsigned i = 0; i < CLI_CHILD_SIGNALS; i++) {
		struct sigaction action = { .sa_flags = SA_RESTART };
		sigemptyset(&action.sa_mask);
		action.sa_handler = signals[i].handler;
		sigaction(signals[i].number, NULL, &child->before[i]);
		if (child->before[i].sa_handler == SIG_IGN && signals[i].number != SIGCHLD)
			continue;
		sigaddset(defaults, signals[i].number);
		sigaction(signals[i].number, &action, NULL);
	}
}

static void give_back_signals(const struct cli_child *child)
{
	for (unsigned i = 0; i < CLI_CHILD_SIGNALS; i++)
		sigaction(signals[i].number, &child->before[i], NULL);
}

static void words_free(char **argv)
{
	for (char **word = argv; word && *word; word++)
		free(*word);
	free(argv);
}

static int words_new(const struct cli_word *words, size_t count, char ***argv)
{
	char **copy = calloc(count + 1, sizeof *copy);

	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = cli_word_string(&words[i]);
		if (!copy[i]) {
			words_free(copy);
			return EINVAL;
		}
	}
	*argv = copy;
	return copy ? 0 : ENOMEM;
}

static int spawn(struct cli_child *child, char **argv, int in, int out, const sigset_t *mask,
		 const sigset_t *defaults)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int error = posix_spawn_file_actions_init(&files);

	if (error)
		return error;
	error = posix_spawnattr_init(&attr);
	if (error)
		goto destroy_files;
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, defaults);
	posix_spawnattr_setsigmask(&attr, mask);
	if (in >= 0)
		error = posix_spawn_file_actions_adddup2(&files, in, 0);
	if (!error && out >= 0)
		error = posix_spawn_file_actions_adddup2(&files, out, 1);
	if (!error)
		error = posix_spawnp(&child->pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
destroy_files:
	posix_spawn_file_actions_destroy(&files);
	return error;
}

int cli_child_start(struct cli_child *child, const struct cli_word *words, size_t count, int in,
		    int out)
{
	sigset_t all, mask, defaults;
	char **argv;
	int error = words_new(words, count, &argv);

	if (error)
		return error;
	/* None is lost between the start and the pid. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	take_signals(child, &defaults);
	error = spawn(child, argv, in, out, &mask, &defaults);
	if (error)
		give_back_signals(child);
	else
		running = child->pid;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	words_free(argv);
	return error;
}

int cli_child_wait(struct cli_child *child)
{
	siginfo_t info = { .si_pid = 0 };
	sigset_t all, mask;
	int status = 0;

	/* Signals come while ppoll() waits, and only then. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	/* Its number is its own until it is reaped: then nothing is passed on. */
	while (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
	       !info.si_pid)
		ppoll(NULL, 0, NULL, &mask);
	running = 0;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	give_back_signals(child);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
