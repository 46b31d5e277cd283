# FILE: common/opt.c
# A whole number has no upper bound.
s/ || number < o->min || number > o->max) {/ || number < o->min) {/
