/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the models of a cluster share (doc/cluster.md): the configuration of a shard, a
 * register that changes by conditional writes on its version, the epoch.
 *
 * Members are 0, 1 and 2, sets of them bits.  Who knows the epoch knows all of the
 * configuration, and of those before: so a member's knowledge is a number.
 */
#ifndef EPOCHS
#define EPOCHS 3
#endif

byte epoch = 1;
byte primary[EPOCHS + 2]; /* member */
byte set[EPOCHS + 2];
byte reign[EPOCHS + 2];   /* the epoch that its primary's reign began in */

#define IN(m, s) (((s) >> (m)) & 1)

/*
 * A conditional write takes effect, in a d_step, while its version is `epoch`.  A reign goes on
 * over epochs of the same primary, unless that was restarted.
 */
inline configure(p, s, is_new)
{
	epoch++;
	primary[epoch] = p;
	set[epoch] = s;
	if
	:: primary[epoch - 1] == p && !(is_new) -> reign[epoch] = reign[epoch - 1]
	:: else -> reign[epoch] = epoch
	fi
}

inline configure_first(p, s)
{
	primary[1] = p;
	set[1] = s;
	reign[1] = 1
}
