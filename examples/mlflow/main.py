"""MLflow: a run records the version of the table that it was trained on.

MLflow logs parameters and metrics of a run; the rows that it was trained on change every day. A
Delta version names them: the run logs its source as a dataset with the table's location and
version, in MLflow's own form for Delta tables. Anybody who opens the run later reads the same rows
from this record alone, and the training gives the same metrics.

It needs the package `mlflow-skinny`, and no server: the runs are in a folder. Where numpy is
installed, `mlflow.log_input` takes a dataset, too.

With your own data: keep the lines around `log_inputs`, and set the address of your tracking server.
VACUUM deletes the files of versions that are older than a week: `vacuum(keep_versions=[…])` keeps
those that runs refer to.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path

# Runs in a folder are enough here; mlflow reads both settings when it is imported.
os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
import mlflow
import pyarrow as pa
from mlflow.data.delta_dataset_source import DeltaDatasetSource
from mlflow.entities import Dataset, DatasetInput, InputTag

from deltaplane import DeltaTable, write_deltalake


def measurements(batch: int) -> pa.Table:
    """Flats of a city: rent by size, which rises from batch to batch."""
    rng = random.Random(batch)
    sizes = [rng.randint(20, 150) for _ in range(300)]
    rents = [size * (10 + batch) + rng.randint(-50, 50) for size in sizes]
    return pa.table({"id": range(300 * batch, 300 * batch + 300), "size": sizes, "rent": rents})


def fit(rows: pa.Table) -> tuple[float, float]:
    """Rent = slope · size + intercept, by least squares."""
    x, y = rows["size"].to_pylist(), rows["rent"].to_pylist()
    n, sx, sy = len(x), sum(x), sum(y)
    sxx, sxy = sum(a * a for a in x), sum(a * b for a, b in zip(x, y, strict=True))
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return slope, (sy - slope * sx) / n


def train(table: DeltaTable) -> str:
    """Trains on the table's version, and logs the version with the run; returns the run's id."""
    with mlflow.start_run() as run:
        source = DeltaDatasetSource(path=table.table_uri, delta_table_version=table.version())
        dataset = Dataset("flats", f"version-{table.version()}", "delta_table", source.to_json())
        training = DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])
        mlflow.MlflowClient().log_inputs(run.info.run_id, [training])
        slope, intercept = fit(table.to_pyarrow_table())
        mlflow.log_metrics({"slope": slope, "intercept": intercept})
        return run.info.run_id


def rows_of(run: mlflow.entities.Run) -> DeltaTable:
    """The version of the table that a run was trained on, from its record alone."""
    (logged,) = run.inputs.dataset_inputs
    source = json.loads(logged.dataset.source)
    return DeltaTable(source["path"], version=source["delta_table_version"])


def main(folder: Path) -> None:
    location = folder / "flats"
    mlflow.set_tracking_uri(f"{folder.resolve().as_uri()}/runs")
    mlflow.set_experiment("rents")
    # MLflow's record leaves the version 0 out: the first one to train on is 1.
    DeltaTable.create(location, measurements(0).schema)
    runs, expected = [], []
    for batch in range(3):
        write_deltalake(location, measurements(batch), mode="append")
        table = DeltaTable(location)
        runs.append(train(table))
        expected.append(table.to_pyarrow_table().sort_by("id"))
    DeltaTable(location).delete("size > 100")

    for run_id, rows in zip(runs, expected, strict=True):
        run = mlflow.get_run(run_id)
        table = rows_of(run)
        assert table.to_pyarrow_table().sort_by("id").equals(rows)
        slope, intercept = fit(table.to_pyarrow_table())
        assert (slope, intercept) == (run.data.metrics["slope"], run.data.metrics["intercept"])
        print(f"run of version {table.version()}: {rows.num_rows} rows, {slope:.2f} a square metre, again the same")
    assert len({mlflow.get_run(run_id).data.metrics["slope"] for run_id in runs}) == len(runs)
    print(f"the newest version has {DeltaTable(location).count()} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
