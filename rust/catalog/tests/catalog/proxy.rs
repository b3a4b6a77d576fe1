//! A proxy that loses answers: it forwards requests, and cuts some connections when the server's
//! answer arrives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Which answers are lost.
#[derive(Clone)]
pub struct Losses {
    /// Each how many-th answer; 0 for none.
    every: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
    pub lost: Arc<AtomicU64>,
    /// Notified for each lost answer.
    pub happened: Arc<Notify>,
}

impl Losses {
    pub fn every(count: u64) -> Self {
        Losses {
            every: Arc::new(AtomicU64::new(count)),
            answers: Arc::default(),
            lost: Arc::default(),
            happened: Arc::default(),
        }
    }

    /// Changes how many; the next answer is the first one that is lost.
    pub fn set(&self, count: u64) {
        self.answers.store(count.saturating_sub(1), Ordering::SeqCst);
        self.every.store(count, Ordering::SeqCst);
    }

    fn loses(&self) -> bool {
        let every = self.every.load(Ordering::SeqCst);
        let number = self.answers.fetch_add(1, Ordering::SeqCst) + 1;
        let loses = every > 0 && number.is_multiple_of(every);
        if loses {
            self.lost.fetch_add(1, Ordering::SeqCst);
            self.happened.notify_one();
        }
        loses
    }
}

/// Starts a proxy before a server.
pub async fn start(server: SocketAddr, losses: Losses) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(forward(stream, server, losses.clone()));
        }
    });
    address
}

async fn forward(mut client: TcpStream, server: SocketAddr, losses: Losses) {
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    // Only an answer's first part is lost: a long answer would hardly ever arrive otherwise.
    let mut begins = true;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => match read {
                Ok(count) if count > 0 => {
                    begins = true;
                    if server.write_all(&from_client[..count]).await.is_err() { return; }
                }
                _ => return,
            },
            read = server.read(&mut from_server) => match read {
                Ok(count) if count > 0 => {
                    if std::mem::take(&mut begins) && losses.loses() { return; }
                    if client.write_all(&from_server[..count]).await.is_err() { return; }
                }
                _ => return,
            },
        }
    }
}
