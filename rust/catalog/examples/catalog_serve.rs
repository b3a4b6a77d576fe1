//! Serves a catalog on a loopback address, without tokens.
//!
//! `cargo run -p deltaplane-catalog --example catalog_serve -- DATABASE ADDRESS ROOT`, for example
//! `sqlite:///lake.db 127.0.0.1:8080 file:///lake`
#![allow(clippy::expect_used)]

use deltaplane_catalog::CatalogError;
use deltaplane_catalog::server::{Authentication, Server, ServerOptions};
use deltaplane_catalog::store::{Location, Store, StoreOptions};

#[tokio::main]
async fn main() -> Result<(), CatalogError> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().expect(what);
    let location = Location::parse(&next("the database's URL"))?;
    let address = next("the address").parse().expect("an address like 127.0.0.1:8080");
    let store_options = StoreOptions {
        storage_root: Some(next("the root of managed tables")),
        ..StoreOptions::default()
    };
    let options = ServerOptions {
        address,
        authentication: Authentication::Anonymous,
        credentials: Default::default(),
    };
    let store = Store::open(location, store_options).await?;
    let server = Server::start(store, options).await?;
    println!("http://{}", server.address());
    // Runs until its input ends.
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    server
        .run_until(async {
            let _ = ended.await;
        })
        .await;
    Ok(())
}
