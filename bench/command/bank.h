/* SPDX-License-Identifier: BSD-2-Clause */
/* bank.h -- kvbench bank: transfers in transactions, and audits of the total. */
#ifndef BENCH_COMMAND_BANK_H
#define BENCH_COMMAND_BANK_H

int command_bank(int argc, char **argv);

#endif
