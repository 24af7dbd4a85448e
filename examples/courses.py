"""Course subscriptions: at most two students per course, and at most two courses per student.

Neither rule belongs to one stream. A decision depends on all events with the tag of the course or of the student, and
takes effect only if no others appeared meanwhile.

    python examples/courses.py
"""

from dataclasses import dataclass, field

from pydantic import BaseModel

import tallystick
from tallystick import match
from tallystick.decide import Boundary, Decider, Decisions

catalog = tallystick.Catalog()


@catalog.event("course.defined")
class CourseDefined(BaseModel):
    course: str
    seats: int

    def tags(self) -> list[str]:
        return [f"course:{self.course}"]


@catalog.event("student.subscribed")
class Subscribed(BaseModel):
    course: str
    student: str

    def tags(self) -> list[str]:
        return [f"course:{self.course}", f"student:{self.student}"]


@dataclass
class Seats:
    of: dict[str, int] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)


class Subscription(Decider):
    def initial(self) -> Seats:
        return Seats()

    def evolve(self, seats: Seats, event: CourseDefined | Subscribed) -> Seats:
        if isinstance(event, CourseDefined):
            return Seats(seats.of | {event.course: event.seats}, seats.taken)
        return Seats(seats.of, seats.taken | {(event.course, event.student)})

    def define(self, seats: Seats, course: str, places: int) -> list[CourseDefined]:
        return [] if course in seats.of else [CourseDefined(course=course, seats=places)]

    def subscribe(self, seats: Seats, course: str, student: str) -> list[Subscribed]:
        if sum(course == taken for taken, _ in seats.taken) >= seats.of.get(course, 0):
            raise ValueError(f"{course} is full")
        if sum(student == who for _, who in seats.taken) >= 2:
            raise ValueError(f"{student} has two courses")
        return [Subscribed(course=course, student=student)]


def subscribe(school: Decisions[Seats, CourseDefined | Subscribed], course: str, student: str) -> int:
    query = match(tags=[f"course:{course}"]) | match(tags=[f"student:{student}"])
    return school.run(Boundary(query, f"course/{course}"), Subscription.subscribe, course=course, student=student).seq


with tallystick.open("memory:", catalog=catalog) as store:
    school = Decisions(store, Subscription)
    for course in ("art", "botany", "chess"):
        school.run(
            Boundary(match(tags=[f"course:{course}"]), f"course/{course}"), Subscription.define, course, places=2
        )
    for course, student in [("art", "ann"), ("art", "ben"), ("art", "cem"), ("botany", "ann"), ("chess", "ann")]:
        try:
            print(f"{student} takes {course}: seq {subscribe(school, course, student)}")
        except ValueError as refused:
            print(f"{student} does not take {course}: {refused}")
