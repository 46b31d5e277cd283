#!/usr/bin/env perl
# SPDX-License-Identifier: BSD-2-Clause
# tests/front/client.pl MODULE SOCKET: what a program in Perl does with memcached.
# MODULE: Cache::Memcached or Cache::Memcached::Fast; they serialize, compress, and keep what
# they did in the client flags.
use strict;
use warnings;

my ($module, $socket) = @ARGV;
my $checks = 0;

sub shown { defined $_[0] ? "'$_[0]'" : 'nothing' }

sub is {
	my ($what, $got, $want) = @_;
	die "$module: $what: " . shown($got) . ', not ' . shown($want) . "\n"
		unless shown($got) eq shown($want);
	$checks++;
}

eval "require $module" or exit 77;
my $cache = $module->new({ servers => [$socket], compress_threshold => 10_000,
			   io_timeout => 60, connect_timeout => 60, select_timeout => 60 });

is 'set', $cache->set('name', 'Ada'), 1;
is 'get', $cache->get('name'), 'Ada';
is 'get of none', $cache->get('none'), undef;
is 'add', !!$cache->add('name', 'Bob'), !!0;
is 'add of a new one', $cache->add('new', 'Bob', 100), 1;
is 'replace', $cache->replace('new', 'Eve'), 1;
is 'replace of none', !!$cache->replace('none', 'Eve'), !!0;

# Bytes of any kind; a structure; one that is compressed: all by client flags.
my $bytes = join '', map { chr } 0 .. 255;
is 'set of bytes', $cache->set('bytes', $bytes . "\r\nEND\r\n"), 1;
is 'get of bytes', $cache->get('bytes'), $bytes . "\r\nEND\r\n";
is 'set of a structure', $cache->set('list', [1, { two => 'three' }]), 1;
is 'get of a structure', $cache->get('list')->[1]{two}, 'three';
my $long = 'kvd ' x 50_000;
is 'set of a long one', $cache->set('long', $long), 1;
is 'get of a long one', $cache->get('long'), $long;
is 'set of nothing', $cache->set('empty', ''), 1;
is 'get of nothing', $cache->get('empty'), '';

my $many = $cache->get_multi(qw(name none long new));
is 'get_multi', join(',', sort keys %$many), 'long,name,new';
is 'a value of get_multi', $many->{name}, 'Ada';

is 'set of a number', $cache->set('count', 10), 1;
is 'incr', $cache->incr('count', 5), 15;
is 'decr', $cache->decr('count', 20), $module eq 'Cache::Memcached::Fast' ? '0E0' : 0
	if $module ne 'Cache::Memcached::Fast';
is 'incr of none', $cache->incr('none'), $module eq 'Cache::Memcached::Fast' ? '' : undef;

if ($module eq 'Cache::Memcached::Fast') {
	my ($cas, $value) = @{ $cache->gets('name') };
	is 'gets', $value, 'Ada';
	is 'cas', $cache->cas('name', $cas, 'Ada L.'), 1;
	is 'cas again', !!$cache->cas('name', $cas, 'Bob'), !!0;
	is 'append', $cache->append('name', '!'), 1;
	is 'prepend', $cache->prepend('name', '-'), 1;
	is 'what it is now', $cache->get('name'), '-Ada L.!';
	is 'touch', $cache->touch('name', 100), 1;
	# Pipelined, without answers.
	$cache->set("n$_", $_) for 1 .. 500;
	$cache->nowait_push;
	is 'get_multi of many', scalar(keys %{ $cache->get_multi(map { "n$_" } 1 .. 600) }), 500;
}

is 'delete', $cache->delete('name'), 1;
is 'delete of none', !!$cache->delete('name'), !!0;
is 'get of what is gone', $cache->get('name'), undef;
$cache->flush_all;
is 'flush_all', $cache->get('long'), undef;
print "$checks checks\n";
