//! A server whose connections a test serves itself.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::ports::listen;

/// Listens, and gives each connection and its number to `serve`.
pub async fn listening<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, usize) -> F + Send + 'static,
) -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((stream, _)) = listener.accept().await else {
                return;
            };
            tokio::spawn(serve(stream, number));
        }
    });
    address
}
