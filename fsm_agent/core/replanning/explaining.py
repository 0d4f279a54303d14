"""What a change of the plan means for an end user: one paragraph, from a template, in English and in Chinese.

It says why, what changed, what stays, and what somebody will be asked before it is done. Steps are called by their
descriptions. Words of tools and people stand in it as they came, cut short; nothing of it is ever acted on.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from fsm_agent.core import canon
from fsm_agent.core.engine.records import Task
from fsm_agent.core.engine.state import Run
from fsm_agent.core.machine import TaskState
from fsm_agent.core.plans.members import planned_as
from fsm_agent.core.plans.plan import Step
from fsm_agent.core.replanning.strategy import Diff

LANGUAGES: Final = ("en", "zh")
_MOST: Final = 8
"""So many steps are named; of more, their number."""
_LONGEST: Final = 200
"""Of words from outside so many characters."""


def explanations(
    run: Run,
    new: Mapping[str, Step],
    diff: Diff,
    *,
    signal: str,
    about: Task | None,
    words: Mapping[str, str],
) -> dict[str, str]:
    """Return the paragraph in each of :data:`LANGUAGES`.

    Args:
        run: The state before the change.
        new: The steps that are tasks, by id, of the plan that takes the place of the present one.
        diff: What differs.
        signal: What made it necessary; empty if a person wished it.
        about: The step that it is about, or None.
        words: What the person said, or why a repair helps, in each language; may be empty.
    """
    tasks = run.tasks

    def name(i: str) -> str:
        step = new[i] if i in new else tasks[i].step if planned_as(i) == i else None
        return (_short(step.description) if step is not None else "") or i

    done = {i: None for i in diff.kept if i in tasks and tasks[i].state is TaskState.DONE}
    groups: dict[str, Collection[str]] = {
        "added": [i for i in diff.added if i not in diff.reused],
        "changed": diff.changed,
        "removed": diff.removed,
        "reused": diff.reused,
        "done": done,
        "kept": [i for i in diff.kept if i not in done],
        "asked": [i for i in (*diff.added, *diff.changed) if new[i].requires_confirmation],
    }
    names = {i: name(i) for ids in groups.values() for i in islice(ids, _MOST)}
    if about is not None:
        names[about.id] = name(about.id)
    return {
        lang: _paragraph(
            _WORDS[lang], groups, names, _cause(run, lang, signal, about, words.get(lang, ""), names)
        )
        for lang in LANGUAGES
    }


def _short(text: str) -> str:
    """Return *text* on one line, cut, without the full stop that the sentence around it has."""
    line = " ".join(canon.storable(text).split()).rstrip(".。 ")
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def _cause(run: Run, lang: str, signal: str, about: Task | None, words: str, names: Mapping[str, str]) -> str:
    said = _WORDS[lang]
    if not signal:
        return _short(words) or said["person"]
    if about is None:
        whole = said["run"].format(signal) if signal not in _RUN[lang] else _RUN[lang][signal]
        broken = (
            [c.say or c.key for c in run.plan.constraints if c.key in run.broken]
            if run.plan is not None
            else []
        )
        return whole + (said["said"].format(_short("; ".join(broken))) if broken else "")
    error = about.trouble.error if about.trouble is not None else None
    told = _short(str((error or {}).get("message") or about.reason))
    frame = _TASK[lang].get(signal, _TASK[lang][""])
    return (
        frame.format(names[about.id])
        + (said["said"].format(told) if told else "")
        + (said["repair"].format(_short(words)) if words else "")
    )


def _paragraph(
    said: Mapping[str, str], groups: Mapping[str, Collection[str]], names: Mapping[str, str], cause: str
) -> str:
    def told(*keys: str) -> list[str]:
        return [said[key].format(_listed(groups[key], names, said)) for key in keys if groups[key]]

    changes = told("added", "changed", "removed", "reused") or [said["nothing"]]
    stays = told("done", "kept") or [said["none"]]
    return said["frame"].format(cause, said["and"].join(changes), said["and"].join(stays)) + "".join(
        said["also"].format(part) for part in told("asked")
    )


def _listed(ids: Collection[str], names: Mapping[str, str], said: Mapping[str, str]) -> str:
    shown = said["comma"].join(names[i] for i in islice(ids, _MOST))
    return shown if len(ids) <= _MOST else said["more"].format(shown, len(ids) - _MOST)


_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "frame": "The plan was changed because {}. {}. {}.",
        "person": "a person gave another one",
        "run": "of {}",
        "said": " ({})",
        "repair": "; {}",
        "added": "New: {}",
        "changed": "Changed: {}",
        "removed": "No longer needed: {}",
        "reused": "Taken over from finished work: {}",
        "nothing": "The steps are the same",
        "done": "Already done and kept: {}",
        "kept": "Unchanged: {}",
        "none": "Nothing of the earlier plan stays",
        "asked": "Somebody is asked before: {}",
        "also": " {}.",
        "and": "; ",
        "comma": ", ",
        "more": "{} and {} more",
    },
    "zh": {
        "frame": "计划已调整，原因：{}。{}。{}。",
        "person": "有人给出了另一份计划",
        "run": "{}",
        "said": "（{}）",
        "repair": "；{}",
        "added": "新增：{}",
        "changed": "改动：{}",
        "removed": "不再需要：{}",
        "reused": "沿用已完成的结果：{}",
        "nothing": "步骤没有变化",
        "done": "已完成并保留：{}",
        "kept": "保持不变：{}",
        "none": "原计划没有保留的步骤",
        "asked": "执行前会先征求确认：{}",
        "also": "{}。",
        "and": "；",
        "comma": "、",
        "more": "{}等，另有 {} 步",
    },
}
_TASK: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "": '"{}" failed',
        "auth_denied": 'access was denied to "{}"',
        "bad_request": '"{}" was asked for something that cannot be',
        "conflict": '"{}" met a contradiction',
        "not_found": '"{}" found nothing',
        "precondition_violated": 'what "{}" rests on does not hold',
        "progress_stall": '"{}" got no further',
        "quota_exhausted": 'the allowance for "{}" is used up',
        "rate_limited": '"{}" was asked too often',
        "repeated_error": '"{}" failed in the same way again',
        "transient_error": '"{}" got no answer',
        "undeclared_tool": '"{}" needs a tool that is not there',
        "unresolved_reference": '"{}" lacks what an earlier step should have given',
        "unverified": 'the result of "{}" could not be checked',
        "validation_failed": 'the result of "{}" is not what is needed',
    },
    "zh": {
        "": "“{}”失败了",
        "auth_denied": "“{}”没有访问权限",
        "bad_request": "“{}”的请求无法满足",
        "conflict": "“{}”遇到了矛盾",
        "not_found": "“{}”没有找到所需内容",
        "precondition_violated": "“{}”的前提不成立",
        "progress_stall": "“{}”没有进展",
        "quota_exhausted": "“{}”的配额已用完",
        "rate_limited": "“{}”请求过于频繁",
        "repeated_error": "“{}”再次以同样的方式失败",
        "transient_error": "“{}”没有得到响应",
        "undeclared_tool": "“{}”需要的工具不存在",
        "unresolved_reference": "“{}”缺少前面步骤应给出的内容",
        "unverified": "“{}”的结果无法核实",
        "validation_failed": "“{}”的结果不符合要求",
    },
}
_RUN: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "budget_low": "what is left of the budget may not suffice",
        "constraint_violated": "a limit is exceeded",
        "deadlock": "nothing could go on",
        "inefficient": "a step cost far more than was expected",
    },
    "zh": {
        "budget_low": "剩余的预算可能不够",
        "constraint_violated": "超出了限制",
        "deadlock": "没有步骤可以继续",
        "inefficient": "某一步的花费远超预期",
    },
}
