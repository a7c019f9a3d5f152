//! How variants and cells begin: from a copy of the data, of this run or an earlier one.

use crate::lab::{Lab, entries};
use crate::{private_plan, servers};

fn starts(lab: &Lab, run: &str) -> Vec<serde_json::Value> {
    let run: serde_json::Value =
        serde_json::from_str(&lab.read(&format!("{run}/run.json"))).unwrap();
    run["starts"].as_array().unwrap().clone()
}

fn column(starts: &[serde_json::Value], name: &str) -> Vec<String> {
    starts
        .iter()
        .map(|start| match &start[name] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

const WRITERS: &str = r#"workloads = ["oltp_write_only"]
threads = [1, 2]
measure = "600ms"
reference = false

[[variant]]
name = "A"

[[variant]]
name = "B""#;

const COPY: &str = "put back from the copy of its files";

#[test]
fn data_is_kept_between_runs_and_put_back_between_variants() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(&binary, WRITERS));
        lab.run(&["plan.toml", "--out", "first"])
            .expect(0)
            .says("the data is kept for later runs");
        lab.assert_clean();
        let first = starts(&lab, "first");
        assert_eq!(column(&first, "variant"), ["A", "B"]);
        assert_eq!(column(&first, "cell"), ["1", "3"]);
        assert_eq!(column(&first, "data"), ["loaded", COPY]);
        assert!(first[1]["seconds"].as_f64().unwrap() > 0.0);
        for start in &first {
            for step in start["settled"].as_array().unwrap() {
                assert_eq!(step["timed_out"], false, "{step}");
            }
        }
        let report = lab.read("first/report.md");
        assert!(
            report.contains("### How the steps began") && report.contains(COPY),
            "{report}"
        );

        let list = lab.run(&["cache", "list"]).expect(0).stdout;
        insta::with_settings!({filters => vec![
            (r"[\d.]+ [KMG]iB", "[size]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[time]"),
            (r"\d+\.\d+\.\d+[^ ]*: standard", "[version]: standard"),
            (r"/[^ ]*/\.cache/capbench", "[cache]"),
            (r" +\n", "\n"),
            (r"  +", "  "),
        ]}, {
            // Every server says the same.
            insta::allow_duplicates! {
            insta::assert_snapshot!(list, @r"
             size  made  last used  data
             [size]  [time]  [time]  [version]: standard version=1 database=capbench tables=2 size=1000 rows seed=42 engine=innodb auto_inc=true index=true secondary=false k=uniform
            [size] of at most [size] in [cache]
            ");
            }
        });
        let second = lab.run(&["plan.toml", "--out", "second"]).expect(0);
        second.says("(kept from an earlier run)");
        assert!(!second.stderr.contains("loading rows"), "{}", second.stderr);
        lab.assert_clean();
        assert_eq!(
            column(&starts(&lab, "second"), "data"),
            ["kept from an earlier run", COPY]
        );

        // Other data is not taken for it.
        let other = private_plan(&binary, WRITERS).replace("rows = 1_000", "rows = 1_001");
        lab.write("other.toml", &other);
        lab.run(&["other.toml", "--out", "third"])
            .expect(0)
            .says("(loaded)");

        // Files that were changed are not used.
        let cache = lab.path(".cache/capbench");
        for entry in entries(&cache).into_iter().filter(|e| e.is_dir()) {
            std::fs::write(entry.join("data/ibdata1"), "harm").unwrap();
        }
        let harmed = lab.run(&["plan.toml", "--out", "fourth"]).expect(0);
        harmed.says("is not as it was made").says("(loaded)");
        lab.assert_clean();

        // Nor is harm that sizes and times do not show: the server does not start, and the data is made anew.
        for entry in entries(&cache).into_iter().filter(|e| e.is_dir()) {
            let path = entry.join("data/ibdata1");
            let facts = path.metadata().unwrap();
            std::fs::write(&path, vec![0; usize::try_from(facts.len()).unwrap()]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(facts.modified().unwrap()).unwrap();
        }
        let harmed = lab.run(&["plan.toml", "--out", "fifth"]).expect(0);
        harmed
            .says("did not start on the data that was kept")
            .says("(loaded)");
        lab.assert_clean();
        lab.run(&["cache", "clear"])
            .expect(0)
            .says("removed 2 data sets");
        lab.run(&["cache", "list"])
            .expect(0)
            .says("0 B of at most 20.0 GiB");
        assert_eq!(entries(&cache), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn prepare_fills_the_cache_of_a_private_server() {
    let binary = &servers::servers()[0];
    let lab = Lab::new();
    lab.write("plan.toml", &private_plan(binary, WRITERS));
    lab.run(&["prepare", "plan.toml"])
        .expect(0)
        .says("the data is kept for later runs");
    lab.assert_clean();
    lab.run(&["prepare", "plan.toml"])
        .expect(0)
        .says("kept from an earlier run");
    lab.assert_clean();
    let mut command = lab.command(&["prepare", "plan.toml"]);
    command.env("CAPBENCH_CACHE_SIZE", "0");
    lab.start(command)
        .wait()
        .expect(2)
        .says("its data goes away with it");
}

#[test]
fn without_room_in_the_cache_the_copy_is_the_runs_own() {
    for (size, says, kept) in [
        ("0", "", false),
        (
            "1MiB",
            "the data is not kept for later runs: it takes up",
            false,
        ),
        ("20 things", "is not a unit of size", true),
    ] {
        let binary = &servers::servers()[0];
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(binary, WRITERS));
        let mut command = lab.command(&["plan.toml", "--out", "run"]);
        command.env("CAPBENCH_CACHE_SIZE", size);
        let ended = lab.start(command).wait();
        lab.assert_clean();
        ended.says(says);
        if kept {
            ended.expect(2);
            continue;
        }
        ended.expect(0);
        assert_eq!(column(&starts(&lab, "run"), "data"), ["loaded", COPY]);
        assert!(!lab.path(".cache/capbench").join("data").exists());
    }
}

#[test]
fn every_cell_begins_on_data_of_its_own() {
    let binary = &servers::servers()[0];
    let lab = Lab::new();
    let plan = private_plan(binary, WRITERS)
        .replace("rows = 1_000", "rows = 1_000\nreset = \"per-cell\"")
        .replace(
            "duration = \"0s\"",
            "duration = \"1s\"\nuntil_level = true\nlimit = \"60s\"\nthreads = 1",
        );
    lab.write("plan.toml", &plan);
    lab.run(&["plan.toml", "--out", "run"]).expect(0);
    lab.assert_clean();
    let starts = starts(&lab, "run");
    assert_eq!(column(&starts, "cell"), ["1", "2", "3", "4"]);
    assert_eq!(column(&starts, "data"), ["loaded", COPY, COPY, COPY]);
    // All rows fit into the buffer pool: soon nothing is read any more.
    for start in &starts {
        assert_eq!(start["warmup"]["level"], true, "{start}");
        let reads = start["warmup"]["reads"].as_array().unwrap();
        assert!(reads.len() >= 5, "{start}");
    }
    assert!(lab.read("run/report.md").contains("reads/s, level"));
}
