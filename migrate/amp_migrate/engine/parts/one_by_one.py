"""Parts of a project, planned one after the other in one process."""

from __future__ import annotations

from amp_migrate.engine.find.packages import Packages
from amp_migrate.engine.find.prefilter import STEP_SIGN
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.outcome import Outcome, Part
from amp_migrate.engine.parsed_files import Parsed, forget_oldest
from amp_migrate.engine.results.examined import Examined, Looked
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import InRegions
from amp_migrate.settings import Settings


class OneByOne:
    """Plans parts, and keeps what they have in common.

    Args:
        workers: how many processes may look at the results of one part.
        looked: what results of parts came to that may be planned again, as one; new ones are added.
    """

    def __init__(
        self, workspace: Workspace, settings: Settings, workers: int = 1, looked: Looked | None = None
    ) -> None:
        self.looked: Looked = {} if looked is None else looked
        self._workers = workers
        self._workspace = workspace
        self._settings = settings
        self._torch = settings.target_torch
        self._parsed: Parsed = {}  # what many parts import is parsed once
        self._packages = Packages(settings.environment)
        self._in_regions: InRegions = {}  # and what many may run is interpreted once

    def plan(self, part: Part) -> Outcome:
        """What becomes of a part, written for the oldest PyTorch that one of its files is for."""
        here, settings = self._workspace.focused(part), self._settings.written_for(part)
        if settings.target_torch != self._torch:
            self._torch, self._parsed, self._in_regions = settings.target_torch, {}, {}
        examined = Examined(here, self._torch, self._in_regions, self._workers, self.looked, self._packages)
        outcome = migrate_workspace(here, settings, self._parsed, examined)
        # What another part may want to change as well is a file without a step, as a model is that both import.
        if any(not STEP_SIGN.search(each.source.text) for each in outcome.changed):
            self.looked.update(examined.looked)
        return outcome

    def forget_oldest(self) -> None:
        """Keep only what was parsed last, so that memory does not grow with the number of parts."""
        forget_oldest(self._parsed)
