//! One run: a cluster, clients, faults; then healing, a scan, and the judges.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use helve_client::Client;
use helve_tests::{
    cluster::{Cluster, Setup},
    digest, failpoints,
    history::History,
    process::binary,
    promise::is_broken,
    wait::PATIENCE,
    workload::{Harm, Harmed},
};
use rand::{SeedableRng as _, rngs::SmallRng};
use tokio::time::timeout;

use super::{
    archive::Archive,
    keep, load,
    load::Load,
    measure,
    nemesis::Nemesis,
    outcome::Ran,
    plan::Plan,
    recovery,
    verdict::{self, Judged},
    written::Written,
};

/// Answers that a run must have had to count.
const ANSWERS_MIN: usize = 100;

/// How long a run may take to begin, and to go on: so much, and more for each strike. Far beyond what is ever needed, however busy the
/// machine: every wait inside has a bound of its own.
const SET_LIMIT: Duration = Duration::from_secs(300);
const PLAY_LIMIT: Duration = Duration::from_secs(420);
const STRIKE_LIMIT: Duration = Duration::from_secs(120);

/// Runs a plan.
pub(crate) async fn run(plan: &Plan) -> Ran {
    let begun = Instant::now();
    let mut ran = Ran::new(plan);
    let mut findings = Findings::default();
    let set = timeout(SET_LIMIT, Scene::set(plan)).await;
    let set = set.unwrap_or_else(|_| Err(anyhow!("it had not begun after {SET_LIMIT:?}")));
    match set {
        Ok(mut scene) => {
            let limit = PLAY_LIMIT + STRIKE_LIMIT * u32::try_from(plan.strikes.len()).unwrap_or(1);
            let played = timeout(limit, scene.play(plan, &mut ran)).await;
            let hung = |_| Err(anyhow!("it hung: after {limit:?} at {}", scene.step()));
            findings.note(played.unwrap_or_else(hung));
            findings.harmed.append(&mut scene.harmed);
            findings.void.append(&mut scene.void);
            scene.judge(&mut ran, &mut findings);
            ran.conclude(&findings.harmed, findings.void, findings.undecided);
            ran.seconds = begun.elapsed().as_secs_f64();
            if !ran.held() {
                ran.kept = keep::keep(plan, &ran, &scene.history, &scene.cluster);
            }
        }
        Err(error) => {
            findings.note(Err(error));
            ran.conclude(&findings.harmed, findings.void, findings.undecided);
            ran.seconds = begun.elapsed().as_secs_f64();
        }
    }
    ran
}

/// The binary that runs break.
pub(crate) fn binary_under_test() -> PathBuf {
    binary(env!("CARGO_BIN_EXE_helve-under-test"))
}

#[derive(Default)]
struct Findings {
    harmed: Vec<Harmed>,
    void: Vec<String>,
    undecided: Option<String>,
}

impl Findings {
    fn note(&mut self, step: Result<()>) {
        match step {
            Ok(()) => {}
            Err(error) if is_broken(&error) => {
                self.harmed
                    .push(Harmed::new(Harm::Wrong, format!("{error:#}")));
            }
            Err(error) => self.void.push(format!("{error:#}")),
        }
    }
}

/// A cluster with clients and callers.
struct Scene {
    cluster: Cluster,
    nemesis: Nemesis,
    archive: Option<Archive>,
    history: Arc<History>,
    clients: Arc<[Client]>,
    load: Load,
    rng: SmallRng,
    harmed: Vec<Harmed>,
    void: Vec<String>,
    /// When the callers stopped, in the history's nanoseconds.
    stopped_ns: Option<u64>,
    /// What is under way behind the strikes.
    step: &'static str,
}

impl Scene {
    async fn set(plan: &Plan) -> Result<Self> {
        let mut setup = Setup::new(binary_under_test(), plan.nodes)
            .with("HELVE_SNAPSHOT_ENTRIES", &plan.snapshot_entries.to_string())
            .with("HELVE_LOG_KEEP_ENTRIES", &plan.log_keep_entries.to_string());
        if let Some(plant) = &plan.plant {
            setup = setup.with("HELVE_PLANTED", plant);
        }
        let (nemesis, setup) = Nemesis::prepare(plan, setup)?;
        let mut cluster = setup.prepare().await?;
        cluster.hush();
        for seat in cluster.seats() {
            failpoints::watch(&mut cluster, seat);
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        // A planted bug may break the archive too, and is to be found by the rest.
        let archive = match plan.plant {
            Some(_) => None,
            None => Archive::begin(&cluster).await?,
        };
        let history = Arc::new(History::new());
        let mut rng = SmallRng::seed_from_u64(plan.seeds.recovery);
        let clients = load::clients(&cluster, &history, &mut rng)?;
        let load = Load::begin(plan, &clients).await?;
        Ok(Self {
            cluster,
            nemesis,
            archive,
            history,
            clients,
            load,
            rng,
            harmed: Vec::new(),
            void: Vec::new(),
            stopped_ns: None,
            step: "",
        })
    }

    /// Breaks, mends, and looks at what is there.
    async fn play(&mut self, plan: &Plan, ran: &mut Ran) -> Result<()> {
        let struck = self
            .nemesis
            .run(plan, &mut self.cluster, &self.history, &self.load)
            .await;
        let recovered = match struck {
            Ok(()) => self.recover(ran).await,
            failed => failed,
        };
        self.step = "the end of the callers";
        let stopped = self.load.stop().await;
        self.stopped_ns = Some(self.history.now_ns());
        recovered?;
        self.harmed.extend(stopped?);
        self.void.extend(self.load.idle());
        self.step = "the nodes' coming together";
        recovery::converge(&mut self.cluster).await?;
        // Nothing is broken any more, so that an answer may be late, but must come.
        let patient = self
            .clients
            .iter()
            .map(|client| client.with_deadline(PATIENCE));
        let patient: Vec<_> = patient.collect();
        self.step = "the scan";
        let roaming = &patient[patient.len() - 1];
        self.harmed.extend(self.load.check(roaming).await?);
        let written = Written::in_history(&self.history.events());
        let nodes = self.cluster.seats().len();
        recovery::scan(&written, &patient, nodes).await?;
        self.step = "the comparison of rows";
        digest::agree(&self.cluster).await?;
        self.step = "the comparison of rows with the archive";
        match &mut self.archive {
            Some(archive) => archive.check(&self.cluster).await,
            None => Ok(()),
        }
    }

    /// What is under way.
    fn step(&self) -> &str {
        match self.step {
            "" => &self.nemesis.step,
            step => step,
        }
    }

    async fn recover(&mut self, ran: &mut Ran) -> Result<()> {
        self.step = "the service of a bare majority";
        let served =
            recovery::majority_serves(&mut self.cluster, &self.clients, &mut self.rng).await?;
        ran.majority_served_ms = u64::try_from(served.as_millis())?;
        Ok(())
    }

    /// Whether a node has said that it executed the planted bug. A bug whose line was never
    /// executed cannot be found.
    fn plant_executed(&self, plant: &str) -> Result<bool> {
        let said = format!("planted bug executed: {plant}");
        for seat in self.cluster.seats() {
            let log = fs::read(self.cluster.log_file(seat))?;
            if String::from_utf8_lossy(&log).contains(&said) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops the nodes, which the judges need the processors of, and judges.
    fn judge(&mut self, ran: &mut Ran, findings: &mut Findings) {
        for seat in self.cluster.running() {
            findings.note(self.cluster.kill(seat).map(drop));
        }
        let events = self.history.events();
        ran.calls = events.len();
        ran.answered = measure::answered(&events);
        ran.in_doubt = measure::in_doubt(&events);
        let stopped_ns = self.stopped_ns.unwrap_or_else(|| self.history.now_ns());
        ran.strikes = self.nemesis.struck(&events, stopped_ns);
        let longest = ran.strikes.iter().map(|strike| strike.unavailable_ms).max();
        ran.unavailable_ms = longest.unwrap_or_default();
        if let Some(plant) = &ran.planted {
            match self.plant_executed(plant) {
                Ok(executed) => ran.plant_executed = executed,
                Err(error) => findings.void.push(format!("a log cannot be read: {error}")),
            }
            if !ran.plant_executed {
                let why = format!("no node executed the planted bug {plant}");
                findings.void.push(why);
            }
        }
        if ran.answered < ANSWERS_MIN {
            findings.void.push(format!(
                "{} calls were answered, {ANSWERS_MIN} are needed",
                ran.answered
            ));
        }
        match verdict::of(&self.history) {
            Judged::Held { records, searched } => {
                ran.records = records;
                ran.searched = searched;
            }
            Judged::Broken(harmed) => findings.harmed.extend(harmed),
            Judged::Undecided(why) => findings.undecided = Some(why),
        }
    }
}
