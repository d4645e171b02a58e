"""Scores of what was found -> what reaches the threshold, on the score that it is meant for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.types import Options


def reached(
    scores: Mapping[int, dict[str, float]],
    options: Options,
    *,
    compared: bool,
    calibration: tuple[float, float] | None,
    complete: Callable[[], None],
) -> tuple[list[int], str]:
    """The ids that stay, and why the threshold was not applied, if it was not.

    `compared` says whether meanings were; `complete` gives what only the words found its cosine too.
    """
    least, on = options.threshold, options.threshold_on
    if least is None:
        return list(scores), ""
    if on != "fused" and not compared:
        return list(scores), f"threshold {least:g} not applied: it is on the cosine, and only words were compared"
    if on == "relevance" and calibration is None:
        why = "it is not known what cosines this embedder gives to texts that belong together"
        return list(scores), f"threshold {least:g} not applied: {why}"
    if on != "fused":
        complete()
    if on == "relevance" and calibration is not None:
        apart, together = calibration
        for score in scores.values():
            if "semantic" in score:
                score["relevance"] = min(max((score["semantic"] - apart) / (together - apart), 0.0), 1.0)
    # A chunk whose vector is still to come has no cosine: it was found by its words, and stays.
    return [chunk_id for chunk_id, score in scores.items() if score.get(on, least) >= least], ""
