# FILE: common/bootstrap.c
# A queue pair number of 32 bits.
s/m->qpn <= 0xffffff && //
