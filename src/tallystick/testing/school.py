"""A decider for tests that depends on tags: courses with seats, and students with a few courses each."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from tallystick import Catalog, match
from tallystick.decide import Boundary, Decider

COURSES_MAX = 2

catalog = Catalog()


@catalog.event("course.defined")
class Defined(BaseModel):
    """A course has so many seats."""

    course: str
    seats: int

    def tags(self) -> list[str]:
        """By the course."""
        return [f"course:{self.course}"]


@catalog.event("student.subscribed")
class Subscribed(BaseModel):
    """A student took a seat."""

    course: str
    student: str

    def tags(self) -> list[str]:
        """By the course and by the student."""
        return [f"course:{self.course}", f"student:{self.student}"]


class Refused(Exception):
    """A rule of the school."""


@dataclass(frozen=True)
class Seats:
    """How many seats courses have, and who has one."""

    of: tuple[tuple[str, int], ...] = ()
    taken: tuple[tuple[str, str], ...] = ()


class Subscription(Decider):
    """At most so many students in a course, and so many courses of a student."""

    def initial(self) -> Seats:
        return Seats()

    def evolve(self, state: Seats, event: Defined | Subscribed) -> Seats:
        if isinstance(event, Defined):
            return Seats((*state.of, (event.course, event.seats)), state.taken)
        return Seats(state.of, (*state.taken, (event.course, event.student)))

    def define(self, state: Seats, course: str, seats: int) -> Defined:
        """Say how many seats a course has."""
        return Defined(course=course, seats=seats)

    def subscribe(self, state: Seats, course: str, student: str) -> Subscribed:
        """Take a seat."""
        if (course, student) in state.taken:
            raise Refused(f"{student} has it")
        if sum(course == each for each, _ in state.taken) >= dict(state.of).get(course, 0):
            raise Refused(f"{course} is full")
        if sum(student == each for _, each in state.taken) >= COURSES_MAX:
            raise Refused(f"{student} has too many courses")
        return Subscribed(course=course, student=student)


def of_course(course: str) -> Boundary:
    """Everything about a course."""
    return Boundary(match(tags=[f"course:{course}"]), f"course/{course}")


def of_both(course: str, student: str) -> Boundary:
    """Everything about a course or a student."""
    return Boundary(match(tags=[f"course:{course}"]) | match(tags=[f"student:{student}"]), f"course/{course}")
