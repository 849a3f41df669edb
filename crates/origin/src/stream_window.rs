//! Decides how many bytes a server may send ahead on one stream of HTTP/2: as many as a fast stream needs at the distance of the server.
//!
//! A stream carries at most its window in one round trip, and a client that does not read makes the gateway hold as much. Data that was
//! asked for cannot be refused. So the window follows from the round-trip time that the kernel has measured while the connection was
//! opened. A server nearby reaches the rate with a small one; a larger one would be faster still, and take less CPU time
//! (`docs/decisions/0036-an-account-of-unread-response-bytes.md`). `stream_window` of an origin sets another one.
//!
//! Towards a server behind a proxy of TCP the kernel measures the way to the proxy; then a stream has the least window for each round trip.

use std::time::Duration;

use pingora::protocols::UniqueIDType;
use pingora::protocols::l4::ext::get_tcp_info;
use sluicegate_base::bounds::{LEAST_STREAM_WINDOW, MOST_STREAM_WINDOW, ORIGIN_STREAM_RATE};

/// Returns the window of each stream of the connection with this socket.
pub(super) fn of_socket(socket: UniqueIDType) -> u32 {
    let measured = get_tcp_info(socket).map(|info| info.tcpi_min_rtt);
    // What the kernel has not measured is 0 or the largest number.
    let known = measured.ok().filter(|rtt| *rtt > 0);
    let round_trip = known.map_or(Duration::MAX, |rtt| Duration::from_micros(rtt.into()));
    by_round_trip(round_trip)
}

/// Returns the window by which a stream reaches [`ORIGIN_STREAM_RATE`] at this round-trip time, as far as the bounds allow.
fn by_round_trip(time: Duration) -> u32 {
    let bytes = time.as_micros() * u128::from(ORIGIN_STREAM_RATE) / 1_000_000;
    let bytes = u32::try_from(bytes).unwrap_or(MOST_STREAM_WINDOW);
    bytes.clamp(LEAST_STREAM_WINDOW, MOST_STREAM_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: near servers have the least window, remote ones the largest, and between them a stream reaches its rate. Method: times around
    /// the bounds, and one that was not measured.
    #[test]
    fn the_window_grows_with_the_distance() {
        let window = |micros| by_round_trip(Duration::from_micros(micros));
        assert_eq!((window(0), window(1_300)), (32 * 1024, 32 * 1024));
        assert_eq!(window(5_000), 125_000);
        assert_eq!((window(10_500), window(50_000)), (256 * 1024, 256 * 1024));
        assert_eq!(by_round_trip(Duration::MAX), 256 * 1024);
    }

    /// Goal: the kernel measures a server nearby as near, and what is no socket is remote. Method: a connection to a listener of the test.
    #[test]
    fn a_server_on_the_same_machine_is_near() {
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsRawFd;

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).expect("a listener");
        assert_eq!(of_socket(stream.as_raw_fd()), LEAST_STREAM_WINDOW);
        assert_eq!(of_socket(-1), MOST_STREAM_WINDOW);
    }
}
