"""native/*.c -> modules of the package, where there is a compiler; without one Python does the same, more slowly.

HEADWATER_NATIVE=1 makes a build without them fail, HEADWATER_NATIVE=0 leaves them out.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = {"lanes": ["lanes", "words"], "pieces": ["pieces"]}
OPTIONS = {"msvc": ["/O2", "/std:c11"], "unix": ["-O3"]}


class NativeModules(BuildHookInterface[Any]):
    """Compiles when a wheel is built, or for an editable installation into the source."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what could be compiled to the wheel, which is then for this kind of machine only."""
        wanted = os.environ.get("HEADWATER_NATIVE", "")
        if self.target_name != "wheel":
            return
        self._made = TemporaryDirectory(prefix="headwater-build-")
        folder = Path(self.root, "src") if version == "editable" else Path(self._made.name, "made")
        for earlier in (*folder.glob("headwater/_native_*.so"), *folder.glob("headwater/_native_*.pyd")):
            earlier.unlink()  # what is not compiled now must not be found as it was
        if wanted == "0":
            return
        try:
            made = self._compiled(folder)
        except Exception as error:
            if wanted == "1":
                raise
            self.app.display_warning(
                f"headwater is installed without native code and adds documents more slowly: {error}"
            )
            return
        if version != "editable":
            build_data["force_include"].update({str(path): f"headwater/{path.name}" for path in made})
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Clear away what was only on its way into the wheel."""
        if self.target_name == "wheel":
            self._made.cleanup()

    def _compiled(self, folder: Path) -> list[Path]:
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext

        class Build(build_ext):
            def build_extensions(self) -> None:
                for extension in self.extensions:
                    extension.extra_compile_args = OPTIONS.get(self.compiler.compiler_type, [])
                super().build_extensions()

        folder_of_sources = os.path.relpath(Path(self.root, "native"))
        extensions = [
            Extension(
                f"headwater._native_{name}",
                [os.path.join(folder_of_sources, f"{part}.c") for part in parts],
                libraries=["m"] if os.name == "posix" else [],
            )
            for name, parts in MODULES.items()
        ]
        command = Build(Distribution({"name": "headwater", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(folder), self._made.name
        command.ensure_finalized()
        command.run()
        return [Path(command.get_ext_fullpath(extension.name)) for extension in extensions]
