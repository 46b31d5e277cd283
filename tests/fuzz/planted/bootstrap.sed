# FILE: common/bootstrap/message.c
# A queue pair number of 32 bits.
s/m->qpn <= 0xffffff && //
