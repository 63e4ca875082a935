# SPDX-License-Identifier: Apache-2.0
"""Programs inherit what is ignored or blocked (`make test &`, nohup, some CI); tests start from the defaults."""
import signal


def default_signals():
	for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
			signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
		if signal.getsignal(s) == signal.SIG_IGN:
			signal.signal(s, signal.default_int_handler if s == signal.SIGINT else signal.SIG_DFL)
	# SIGPIPE Python ignores itself, and gives back to those it starts.
	signal.pthread_sigmask(signal.SIG_SETMASK, [])


default_signals()
