//! Full disks: under the run folder, and under a private server's data.

use std::process::Command;

use crate::external::command;
use crate::faults_server::{Drill, STEPS, usual};
use crate::lab::{Lab, Running, csv_rows};
use crate::{private_plan, servers};

/// Fills the folder `small` once the file `now` is there.
const FILL: &str = "(n=0; while [ ! -e now ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done; \
     cat /dev/zero >small/filler 2>/dev/null; touch filled; rm now) & filler=$!";

/// A private view of the file systems, in which a test may mount one.
fn apart() -> Command {
    let mut command = Command::new("unshare");
    command.arg(if rustix::process::geteuid().is_root() {
        "-m"
    } else {
        "-rm"
    });
    command
}

/// Whether this machine lets a test mount a small file system.
fn may_mount(lab: &Lab) -> bool {
    std::fs::create_dir(lab.path("small")).unwrap();
    let tried = apart()
        .args(["mount", "-t", "tmpfs", "tmpfs"])
        .arg(lab.path("small"))
        .output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        #[allow(clippy::print_stderr, reason = "says what was left out")]
        {
            eprintln!("skipped: no file system can be mounted here");
        }
    }
    may
}

/// Runs capbench where `small` is a file system of `size`, which the file `now` fills; what is in it at the end is
/// copied to `kept`.
fn on_small(lab: &Lab, size: &str, args: &[&str]) -> Running {
    let script = format!(
        "mount -t tmpfs -o mode=755,size={size} tmpfs small || exit 99\n{FILL}\n\"$@\"; code=$?\n\
         kill $filler 2>/dev/null; rm -f small/filler; mkdir -p kept; cp -r small/. kept/; exit $code"
    );
    let capbench = command(lab, args);
    let mut all = apart();
    all.args(["sh", "-c", &script, "sh"])
        .arg(capbench.get_program())
        .args(capbench.get_args())
        .current_dir(lab.path("."));
    for (name, value) in capbench.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    lab.start(all)
}

fn fill(lab: &Lab) {
    lab.write("now", "");
    let full = (0..1200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        lab.path("filled").exists()
    });
    assert!(full, "the file system was not filled");
}

#[test]
fn a_full_disk_under_the_run_folder() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, usual);
        if !may_mount(&drill.lab) {
            return;
        }
        // Full from the beginning: nothing that cannot be written down is changed.
        on_small(&drill.lab, "8k", &["plan.toml", "--out", "small/none"])
            .wait()
            .expect(3)
            .says("o space left");
        drill.unchanged();

        let mut running = on_small(&drill.lab, "1m", &["plan.toml", "--out", "small/run"]);
        running.said("[1/2]");
        running.said(" 0.8s ");
        fill(&drill.lab);
        running
            .wait()
            .expect(3)
            .says("no space left to write")
            .says("capbench report");
        drill.unchanged();
        drill
            .run(&["restore", "kept/run"])
            .expect(0)
            .says("nothing to put back");
        // What was saved before can be read.
        drill.run(&["report", "kept/run"]).expect(0);
        assert!(drill.lab.read("kept/run/report.md").contains("theirs"));
    }
}

#[test]
#[ignore = "slow; make faults runs it"]
fn a_full_disk_under_a_private_server() {
    for binary in servers::servers() {
        let lab = Lab::new();
        if !may_mount(&lab) {
            return;
        }
        // Long enough to use up what the server has laid by; the cell ends with the first refusal.
        let ladder = "workloads = [\"oltp_insert\"]\nthreads = [8]\nmeasure = \"40s\"";
        let plan = private_plan(&binary, ladder).replace(
            "[dataset]",
            &format!(
                "directory = \"{}\"\n\n[dataset]",
                lab.path("small").display()
            ),
        );
        lab.write("plan.toml", &plan);
        let mut running = on_small(&lab, "700m", &["plan.toml", "--out", "run"]);
        running.said("[1/1]");
        running.said(" 0.8s ");
        fill(&lab);
        let ended = running.wait();
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let status: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
        assert_eq!(status, ["failed"], "{}", ended.stderr);
        assert!(lab.read("run/report.md").contains("oltp_insert"));
        // The server is gone, and its folder too.
        lab.assert_clean();
        assert!(lab.path("kept").read_dir().unwrap().next().is_none());
        if ended.code == 3 {
            // MySQL ends itself when it cannot write its binary log.
            ended.says("the private server ended by itself");
        } else {
            ended
                .expect(4)
                .says("1114")
                .says("the disk or the table space is full");
        }
    }
}
