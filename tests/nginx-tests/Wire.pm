package Wire;
# Writes requests and reads answers as the tests of nginx expect them.
#
# Heads of requests get CR LF, which the gateway demands, where the tests write LF. Names of fields, which have no case, get that of nginx.
use strict;
use warnings;
use IO::Socket::INET;

sub request {
    my ($text) = @_;
    return $text unless defined $text && $text =~ /\A[A-Z]+ [^\n]* HTTP\/1\.\d\x0d?\x0a/;
    my ($head, $end, $body) = $text =~ /\A(.*?)(\x0d?\x0a\x0d?\x0a|\x0d?\x0a\z|\z)(.*)\z/s;
    s/\x0d?\x0a/\x0d\x0a/g for $head, $end;
    return $head . $end . $body;
}

my %words = map { lc $_ => $_ } qw/IP WWW ETag XFF URI TE MD5/;

sub answer {
    my ($text) = @_;
    return $text unless defined $text && $text =~ /\AHTTP\/1\.\d /;
    my ($head, $body) = $text =~ /\A(.*?\x0d\x0a)(\x0d\x0a.*|\z)/s or return $text;
    $head =~ s/^([a-z0-9-]+):/join('-', map { $words{$_} || ucfirst } split(m{-}, $1)) . ':'/gme;
    return $head . $body;
}

package IO::Socket::INET;
no warnings 'redefine';

sub print {
    my ($socket, @texts) = @_;
    return IO::Handle::print($socket, map { Wire::request($_) } @texts);
}

sub getline {
    my ($socket) = @_;
    return Wire::answer(scalar IO::Handle::getline($socket));
}
1;
