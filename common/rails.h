/* SPDX-License-Identifier: BSD-2-Clause */
/* rails.h -- how many RDMA devices one kvd serves at the most: its rails. */
#ifndef COMMON_RAILS_H
#define COMMON_RAILS_H

#define RAILS_MAX 4u

#endif
