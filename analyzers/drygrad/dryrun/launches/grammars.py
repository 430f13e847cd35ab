"""The options of the commands that stand in front of a program: which take a value, and which do not.

Each is written down as the command's own help has it. Names are in dashes; where a command takes underscores as well
(``loose``), or the beginnings of names (``abbreviates``), that is said.
"""

from __future__ import annotations

from dataclasses import dataclass

from drygrad.dryrun.launches.launch import LaunchError


@dataclass(frozen=True)
class Grammar:
    """The options of one command."""

    values: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    loose: bool = False
    abbreviates: bool = False
    optional: frozenset[str] = frozenset()
    """Those whose value, if any, stands behind ``=``."""

    def read(self, command: str, words: list[str]) -> tuple[dict[str, str], list[str]]:
        """Return the options before the first word that is none, and that word with all behind it."""
        given: dict[str, str] = {}
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            word = rest.pop(0)
            if word == "--":
                break
            if word.startswith("--"):
                self._long(command, word, rest, given)
            else:
                self._short(command, word, rest, given)
        return given, rest

    def _long(self, command: str, word: str, rest: list[str], given: dict[str, str]) -> None:
        name, equals, value = word.partition("=")
        known = self._known(name.replace("_", "-") if self.loose else name)
        if known is None:
            raise LaunchError(f"{command}: unknown option `{name}`")
        if known in self.values and not equals:
            if not rest:
                raise LaunchError(f"{command}: `{name}` needs a value")
            value = rest.pop(0)
        given[known] = value

    def _short(self, command: str, word: str, rest: list[str], given: dict[str, str]) -> None:
        """Read ``-n 4``, ``-n4`` and switches in one word, ``-um``; single dashes before long names are their own."""
        if word in self.values | self.switches:
            given[word] = self._next(command, word, rest) if word in self.values else ""
            return
        letters = word[1:]
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            if name in self.values:
                given[name] = letters.removeprefix("=") if letters else self._next(command, name, rest)
                return
            if name not in self.switches | self.optional:
                raise LaunchError(f"{command}: unknown option `{word}`")
            given[name] = ""

    @staticmethod
    def _next(command: str, name: str, rest: list[str]) -> str:
        if not rest:
            raise LaunchError(f"{command}: `{name}` needs a value")
        return rest.pop(0)

    def _known(self, name: str) -> str | None:
        every = self.values | self.switches | self.optional
        if name in every or not self.abbreviates:
            return name if name in every else None
        meant = [one for one in every if one.startswith(name)]
        return meant[0] if len(meant) == 1 else None


def _names(text: str) -> frozenset[str]:
    """Return option names from a table: words of one letter have one dash, others two."""
    return frozenset(f"-{name}" if len(name) == 1 else f"--{name}" for name in text.split())


PYTHON = Grammar(
    frozenset(("-W", "-X", "-m", "-c", "--check-hash-based-pycs")),
    _names("b B d E h i I O P q s S u v x V help version"),
)

TORCHRUN = Grammar(
    _names(
        "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method "
        "event-log-handler role log-dir r redirects t tee local-ranks-filter duplicate-stdout-filters "
        "duplicate-stderr-filters node-rank master-addr master-port local-addr logs-specs numa-binding "
        "signals-to-handle shutdown-timeout"
    ),
    _names("standalone m module no-python run-path virtual-local-rank use-env h help"),
    loose=True,
    abbreviates=True,
)

ACCELERATE = Grammar(
    _names(
        "config-file mixed-precision num-processes num-machines num-cpu-threads-per-process dynamo-backend dynamo-mode "
        "gpu-ids machine-rank main-process-ip main-process-port t tee log-dir role rdzv-backend rdzv-conf max-restarts "
        "monitor-interval vm env main-training-function deepspeed-config-file zero-stage offload-optimizer-device "
        "offload-param-device offload-optimizer-nvme-path offload-param-nvme-path gradient-accumulation-steps "
        "gradient-clipping zero3-init-flag zero3-save-16bit-model deepspeed-hostfile deepspeed-exclusion-filter "
        "deepspeed-inclusion-filter deepspeed-multinode-launcher deepspeed-moe-layer-cls-names fsdp-version "
        "fsdp-offload-params fsdp-min-num-params fsdp-sharding-strategy fsdp-reshard-after-forward "
        "fsdp-auto-wrap-policy fsdp-transformer-layer-cls-to-wrap fsdp-backward-prefetch fsdp-state-dict-type "
        "fsdp-forward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading fsdp-sync-module-states "
        "fsdp-activation-checkpointing fsdp-activation-checkpointing-offload megatron-lm-tp-degree "
        "megatron-lm-pp-degree megatron-lm-num-micro-batches megatron-lm-sequence-parallelism "
        "megatron-lm-recompute-activations megatron-lm-use-distributed-optimizer megatron-lm-gradient-clipping "
        "fp8-backend fp8-margin fp8-interval fp8-format fp8-amax-history-len fp8-amax-compute-algo "
        "fp8-override-linear-precision fp8-opt-level fp8-enable-fsdp-float8-all-gather fp8-pad-inner-dim "
        "mpirun-hostfile mpirun-ccl ipex parallelism-config-dp-replicate-size parallelism-config-dp-shard-size "
        "parallelism-config-tp-size parallelism-config-cp-size parallelism-config-cp-comm-strategy"
    ),
    _names(
        "q quiet cpu multi-gpu tpu enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic "
        "dynamo-use-regional-compilation use-deepspeed use-fsdp use-parallelism-config use-megatron-lm use-xpu "
        "same-network m module no-python tpu-cluster no-tpu-cluster tpu-use-sudo downcast-bf16 "
        "fp8-use-autocast-during-eval debug h help"
    ),
    loose=True,
    abbreviates=True,
)

DEEPSPEED = Grammar(
    _names(
        "H hostfile i include e exclude num-nodes num-gpus num-accelerators master-port master-addr node-rank launcher "
        "launcher-args enable-each-rank-log autotuning bind-core-list ssh-port venv-script log-level"
    ),
    _names("module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid bind-cores-to-rank q quiet h help"),
    loose=True,
    abbreviates=True,
)

FABRIC = Grammar(
    _names("accelerator strategy devices num-nodes node-rank main-address main-port precision"), loose=True
)

SRUN = Grammar(
    _names(
        "A account acctg-freq B extra-node-info bb bbf bcast-exclude begin c cpus-per-task cluster-constraint clusters "
        "M C constraint comment container core-spec S cpu-bind cpu-freq cpus-per-gpu d dependency D chdir deadline "
        "delay-boot distribution m e error epilog exclude x export F nodefile gid gpu-bind gpu-freq gpus G "
        "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint i input J job-name jobid L "
        "licenses mail-type mail-user max-threads mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi "
        "msg-timeout n ntasks N nodes nice network ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket "
        "ntasks-per-tres o output open-mode p partition power prefer priority profile prolog q qos r relative "
        "reservation resv-ports sockets-per-node slurmd-debug switches t time task-epilog task-prolog "
        "threads-per-core threads time-min tmp tres-bind tres-per-task u uid W wait w nodelist wckey X"
    )
    - _names("u X"),
    _names(
        "E preserve-env exact external H hold I K l label multi-prog no-allocate Z O overcommit overlap pty Q quiet "
        "reboot s oversubscribe spread-job unbuffered u use-min-nodes v verbose whole X disable-status no-kill k "
        "contiguous interactive slurm-spool-dir h help"
    ),
    optional=_names("exclusive propagate kill-on-bad-exit immediate nice bcast compress"),
)

UV = Grammar(
    _names(
        "extra no-extra group no-group only-group no-editable-package env-file w with with-editable with-requirements "
        "package python-platform index default-index i index-url extra-index-url f find-links index-strategy "
        "keyring-provider P upgrade-package upgrade-group resolution prerelease prerelease-package fork-strategy "
        "exclude-newer exclude-newer-package no-sources-package reinstall-package link-mode C config-setting "
        "config-settings-package no-build-isolation-package no-build-package no-binary-package cache-dir "
        "refresh-package p python color allow-insecure-host directory project config-file"
    ),
    _names(
        "all-extras no-dev dev only-dev no-default-groups all-groups m module no-editable exact no-env-file isolated "
        "active no-active no-sync locked frozen s script gui-script all-packages no-project no-index U upgrade "
        "no-sources reinstall compile-bytecode no-build-isolation no-build no-binary n no-cache refresh "
        "managed-python no-managed-python no-python-downloads q quiet v verbose system-certs native-tls offline "
        "no-progress no-config h help"
    ),
)

POETRY = Grammar(_names("C directory P project"), _names("q quiet v no-interaction n no-plugins no-cache no-ansi ansi"))
PDM = Grammar(_names("p project venv env"), _names("s site-packages json recreate no-isolation q quiet v verbose"))
HATCH = Grammar(
    _names("e env p project data-dir cache-dir config"), _names("v verbose q quiet no-color color no-interactive")
)
CONDA = Grammar(
    _names("n name p prefix cwd"), _names("v verbose dev debug-wrapper-scripts no-capture-output live-stream")
)
PIXI = Grammar(
    _names("e environment manifest-path m color x"),
    _names("frozen locked clean-env no-lockfile-update as-is v verbose q quiet no-progress"),
)

ENV = Grammar(_names("u unset C chdir"), _names("i ignore-environment 0 null v debug"))
TIME = Grammar(_names("f format o output"), _names("p portability a append v verbose q quiet"))
NICE = Grammar(_names("n adjustment"), _names("0 1 2 3 4 5 6 7 8 9"))
TIMEOUT = Grammar(_names("k kill-after s signal"), _names("foreground preserve-status v verbose"))
STDBUF = Grammar(_names("i input o output e error"))
TASKSET = Grammar(frozenset(), _names("a all-tasks c cpu-list p pid"))
NUMACTL = Grammar(
    _names("interleave i membind m cpunodebind N physcpubind C preferred p"), _names("all a localalloc l balancing b")
)
MPIRUN = Grammar(
    frozenset(
        "-n -np -c --n --np -H -host --host -hostfile --hostfile -machinefile --machinefile -x -bind-to --bind-to "
        "-map-by --map-by -npernode --npernode -N -ppn -wdir --wdir -genv -output-filename".split()
    ),
    frozenset("--allow-run-as-root --oversubscribe -oversubscribe --report-bindings --tag-output -q -v".split()),
)
COVERAGE = Grammar(_names("context data-file include omit rcfile source concurrency"), _names("a append branch p L"))
PROFILE = Grammar(_names("o s outfile sort"), _names("m"))
DEBUGPY = Grammar(
    _names("listen connect log-to configure-subProcess adapter-access-token"), _names("wait-for-client m log-to-stderr")
)
PDB = Grammar(_names("c command"), _names("m"))
NSYS = Grammar(
    _names(
        "o output t trace s sample d duration y delay c capture-range capture-range-end x stop-on-exit w show-output "
        "f force-overwrite cudabacktrace cuda-memory-usage gpu-metrics-device gpu-metrics-devices export stats "
        "python-backtrace pytorch python-sampling cuda-graph-trace e env-var backtrace cpuctxsw kill"
    )
)
SHELL = Grammar(_names("o O"), _names("e u x v i l n login norc posix"))
