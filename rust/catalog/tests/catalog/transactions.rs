//! Transactions over several tables.

use deltaplane_catalog::api::UpdateTable;
use deltaplane_catalog::{Catalog, ErrorType, TableName};

use crate::support::{Lake, adding, create, databases, name, proposal};

async fn latest(catalog: &dyn Catalog, names: &[TableName]) -> Vec<i64> {
    let loaded = catalog.load_all(names).await.unwrap();
    loaded.iter().map(|table| table.latest_table_version.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_all_or_nothing() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let http = lake.client();
        let embedded = lake.embedded();
        let catalogs: [&dyn Catalog; 2] = [&http, &embedded];
        for (index, catalog) in catalogs.into_iter().enumerate() {
            let names: Vec<_> = (0..4).map(|n| name(&format!("t{index}_{n}"))).collect();
            let mut tables = Vec::new();
            for name in &names {
                tables.push(create(catalog, name).await);
            }
            let proposals = |versions: [i64; 4]| -> Vec<(TableName, UpdateTable)> {
                names
                    .iter()
                    .zip(&tables)
                    .zip(versions)
                    .map(|((name, loaded), version)| (name.clone(), adding(loaded, proposal(version, None))))
                    .collect()
            };
            let first = proposals([1, 1, 1, 1]);
            assert_eq!(catalog.update_all(&first).await.unwrap().len(), 4);
            assert_eq!(latest(catalog, &names).await, [1, 1, 1, 1]);
            // The same transaction again, as after a lost answer.
            catalog.update_all(&first).await.unwrap();
            assert_eq!(latest(catalog, &names).await, [1, 1, 1, 1]);
            // One loser, first or last: none of the others.
            for versions in [[1, 2, 2, 2], [2, 2, 2, 1], [2, 2, 3, 2]] {
                let e = catalog.update_all(&proposals(versions)).await.unwrap_err();
                let lost = [ErrorType::CommitVersionConflict, ErrorType::InvalidParameterValue];
                assert!(lost.contains(&e.error_type), "{e:?}");
                assert_eq!(latest(catalog, &names).await, [1, 1, 1, 1]);
            }
            // A half that was ratified before doesn't make a whole.
            let mut half = proposals([2, 2, 2, 2]);
            half[0] = first[0].clone();
            let e = catalog.update_all(&half).await.unwrap_err();
            assert_eq!(e.error_type, ErrorType::CommitVersionConflict);
            assert_eq!(latest(catalog, &names).await, [1, 1, 1, 1]);
            let twice = vec![first[0].clone(), first[0].clone()];
            assert_eq!(
                catalog.update_all(&twice).await.unwrap_err().error_type,
                ErrorType::InvalidParameterValue
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_transactions_leave_equal_versions() {
    for database in databases() {
        let lake = Lake::start(database).await;
        let catalog = lake.embedded();
        let names = [name("a"), name("b"), name("c")];
        let mut tables = Vec::new();
        for name in &names {
            tables.push(create(&catalog, name).await);
        }
        let mut writers = Vec::new();
        for writer in 0..6_usize {
            let (catalog, names, tables) = (lake.embedded(), names.clone(), tables.clone());
            writers.push(tokio::spawn(async move {
                let mut won = 0;
                while won < 10 {
                    let next = latest(&catalog, &names).await[0] + 1;
                    let mut updates: Vec<_> = names
                        .iter()
                        .zip(&tables)
                        .map(|(name, loaded)| (name.clone(), adding(loaded, proposal(next, None))))
                        .collect();
                    updates.rotate_left(writer % 3);
                    match catalog.update_all(&updates).await {
                        Ok(_) => won += 1,
                        Err(e) => assert_eq!(e.error_type, ErrorType::CommitVersionConflict, "{e}"),
                    }
                    let seen = latest(&catalog, &names).await;
                    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(latest(&catalog, &names).await, [60, 60, 60]);
    }
}
