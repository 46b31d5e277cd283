/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/zipf.h"

#include <math.h>

/* 1 / (1 - theta), and 1 + 2^-theta: the first two terms of zeta. */
#define ALPHA (1.0 / (1.0 - ZIPF_THETA))
#define ZETA2 (1.0 + 0.50347777502835944)

/* Terms summed one by one, before the rest is taken from Euler and Maclaurin. */
#define ZETA_TERMS 1024u

/*
 * The sum of i^-theta for i in a+1..n: the integral, the half terms at the ends,
 * and the first correction.  The next one is below 1e-12 from a = 1024 on.
 */
static double zeta_tail(double a, double n)
{
	double s = 1.0 - ZIPF_THETA;

	return (pow(n, s) - pow(a, s)) / s + (pow(n, -ZIPF_THETA) - pow(a, -ZIPF_THETA)) / 2 +
	       ZIPF_THETA / 12 * (pow(a, -ZIPF_THETA - 1) - pow(n, -ZIPF_THETA - 1));
}

double zipf_zeta(uint64_t n)
{
	uint64_t first = n < ZETA_TERMS ? n : ZETA_TERMS;
	double sum = 0;

	for (uint64_t i = first; i > 0; i--) /* the small ones first */
		sum += pow((double)i, -ZIPF_THETA);
	return n > first ? sum + zeta_tail((double)first, (double)n) : sum;
}

static void set_eta(struct zipf *z)
{
	double spread = 1 - pow(2.0 / (double)z->items, 1 - ZIPF_THETA);

	/* With one or two items zipf_next() never gets as far as using it. */
	z->eta = z->items > 2 ? spread / (1 - ZETA2 / z->zetan) : 0;
}

void zipf_init(struct zipf *z, uint64_t items, double zetan)
{
	z->items = items;
	z->zetan = zetan > 0 ? zetan : zipf_zeta(items);
	set_eta(z);
}

void zipf_resize(struct zipf *z, uint64_t items)
{
	if (items == z->items)
		return;
	if (items < ZETA_TERMS || z->items < ZETA_TERMS)
		z->zetan = zipf_zeta(items);
	else if (items > z->items && items - z->items < 4)
		for (uint64_t i = z->items + 1; i <= items; i++)
			z->zetan += pow((double)i, -ZIPF_THETA);
	else
		z->zetan += zeta_tail((double)z->items, (double)items);
	z->items = items;
	set_eta(z);
}

/* x to the power of ALPHA, which is 100 but for 1e-13: as exact as pow() of an x
 * that has been rounded, and twice as fast. */
static double power(double x)
{
	double x4 = x * x * x * x, x16 = x4 * x4 * x4 * x4, x32 = x16 * x16;

	return x32 * x32 * x32 * x4;
}

uint64_t zipf_next(const struct zipf *z, struct random *r)
{
	double u = random_double(r);
	double uz = u * z->zetan;
	double number;

	if (uz < 1.0)
		return 0;
	if (uz < ZETA2)
		return 1 < z->items ? 1 : 0;
	number = (double)z->items * power(z->eta * u - z->eta + 1);
	/* Rounding can reach the end. */
	return number < (double)z->items ? (uint64_t)number : z->items - 1;
}

/* The least u for which the last line of zipf_next() gives `number`. */
static double least_u(const struct zipf *z, double number)
{
	double u = (pow(number / (double)z->items, 1 / ALPHA) - 1 + z->eta) / z->eta;
	double least = ZETA2 / z->zetan;

	return fmin(fmax(u, least), 1);
}

double zipf_probability(const struct zipf *z, uint64_t number)
{
	if (number == 0)
		return fmin(1 / z->zetan, 1);
	if (number == 1)
		return (ZETA2 - 1) / z->zetan;
	return least_u(z, (double)number + 1) - least_u(z, (double)number);
}
