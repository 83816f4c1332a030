"""From a model to a deployment: the paste box, the choice of engine and machine, the price to accept."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from arrakis.accounts.access import Permission
from arrakis.accounts.services import add_ssh_key
from arrakis.errors import BadRequest, Conflict
from deploy import metering, quotes, services
from deploy.console.base import ConsoleRequest, add_error, console, page
from deploy.console.forms import AcceptForm, ChoiceForm, ModelForm
from deploy.console.options import choices
from deploy.ledger import services as ledger
from deploy.models import Quote
from sizing.models import HubModel

STALE = frozenset({"quote_expired", "price_changed"})
"""Refusals of an acceptance after which a new quote is made and asked about again."""


@require_GET
@console()
def models(request: ConsoleRequest) -> HttpResponse:
    """`?model=` (the paste box, or a link) goes on to the deploy form where the model is known."""
    form = ModelForm(request.GET if request.GET.get("model") else None)
    if form.is_bound and form.is_valid():
        try:
            model = quotes.known_model(form.cleaned_data["model"])
        except BadRequest as error:
            add_error(form, error, "model")
        else:
            return redirect(f"{reverse('console:deploy')}?{urlencode({'model': model.repo_id})}")
    known = list(HubModel.objects.filter(is_listed=True))
    return page(request, "models.html", {"form": form, "models": known}, status=404 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@console()
def deploy(request: ConsoleRequest) -> HttpResponse:
    """GET shows what can be chosen; POST makes the quote and goes to its page."""
    given = request.POST if request.method == "POST" else request.GET
    model = quotes.known_model(given.get("model", ""))
    form = ChoiceForm(request.POST or None)
    if request.method == "POST":
        request.access.require(Permission.DEPLOY)
        if form.is_valid() and (quote := _quoted(request, form)):
            shown = form.shown_price()
            was = f"?{urlencode({'was': shown})}" if _differs(shown, quote.price_per_hour) else ""
            return redirect(reverse("console:quote", args=[quote.pk]) + was)
    balance = ledger.balance(request.access.workspace.pk)
    context = given.get("context", "")
    offered = choices(
        model=model,
        workspace=request.access.workspace,
        available=balance.available,
        engine=given.get("engine", ""),
        machine=given.get("machine", ""),
        context=_tokens(context),
    )
    shown_form = {"form": form, "model": model, "choices": offered, "balance": balance, "context": context[:9]}
    return page(request, "deploy.html", shown_form, status=422 if request.method == "POST" else 200)


@require_GET
@console(Permission.DEPLOY)
def quote(request: ConsoleRequest, quote_id: UUID) -> HttpResponse:
    """The price to accept. A quote that became a deployment leads there."""
    held = services.get_quote(request.access.workspace, quote_id)
    if held.used_at is not None:
        return redirect("console:deployment", held.deployment.pk)
    form = AcceptForm(user=request.user)
    return _quote_page(request, held, form, was=_money(request.GET.get("was", "")))


@require_POST
@console(Permission.DEPLOY)
def accept(request: ConsoleRequest, quote_id: UUID) -> HttpResponse:
    """Accepts a quote; twice is once. A changed price or an expired quote asks again, with both prices."""
    held = services.get_quote(request.access.workspace, quote_id)
    form = AcceptForm(request.POST, user=request.user)
    if not form.is_valid():
        return _quote_page(request, held, form, status=422)
    try:
        deployment = services.request(
            workspace=request.access.workspace,
            user=request.user,
            quote_id=held.pk,
            name=form.cleaned_data["name"],
            ssh_keys=_ssh_keys(request, form),
            hf_token=form.cleaned_data["hf_token"],
            args=form.cleaned_data["args"],
            let_in_early=form.cleaned_data["let_in_early"],
        )
    except Conflict as error:
        if error.code in STALE and (fresh := _asked_again(request, held, form)):
            return _quote_page(request, fresh, form, status=409, was=held.price_per_hour, again=error.code)
        add_error(form, error)
        return _quote_page(request, held, form, status=409)
    except BadRequest as error:
        add_error(form, error, _field(error.code))
        return _quote_page(request, held, form, status=error.status)
    return redirect("console:deployment", deployment.pk)


def _quote_page(
    request: ConsoleRequest,
    held: Quote,
    form: AcceptForm,
    *,
    status: int = 200,
    was: Decimal | None = None,
    again: str = "",
) -> HttpResponse:
    balance = ledger.balance(request.access.workspace.pk)
    context = {
        "quote": held,
        "form": form,
        "balance": balance,
        "was": was if was != held.price_per_hour else None,
        "again": again,
        "missing": max(held.hold - balance.available, Decimal(0)),
        "hours_left": metering.hours_left(request.access.workspace, held.price_per_hour),
        "memory": _memory(held),
    }
    return page(request, "quote.html", context, status=status)


def _quoted(request: ConsoleRequest, form: ChoiceForm) -> Quote | None:
    gpu, count = form.gpu()
    try:
        return services.quote(
            workspace=request.access.workspace,
            user=request.user,
            model=form.cleaned_data["model"],
            engine=form.cleaned_data["engine"],
            gpu=gpu,
            count=count,
            context=form.cleaned_data["context"],
        )
    except BadRequest as error:
        add_error(form, error)
        return None


def _asked_again(request: ConsoleRequest, held: Quote, form: AcceptForm) -> Quote | None:
    """The same thing at today's price; None (and the reason in the form) where it is no longer to be had."""
    try:
        return services.quote(
            workspace=request.access.workspace,
            user=request.user,
            model=held.repo_id,
            engine=held.engine,
            gpu=str(held.offer_facts["gpu"]),
            count=int(held.offer_facts["count"]),
            context=held.plan.get("context"),
        )
    except BadRequest as error:
        add_error(form, error)
        return None


def _ssh_keys(request: ConsoleRequest, form: AcceptForm) -> list[str]:
    chosen = form.public_keys()
    if pasted := form.cleaned_data["new_ssh_key"].strip():
        chosen.append(add_ssh_key(user=request.user, name="", public_key=pasted).public_key)
    return chosen


def _field(code: str) -> str | None:
    for prefix, field in (("ssh_key", "new_ssh_key"), ("engine_argument", "args"), ("token_", "hf_token")):
        if code.startswith(prefix):
            return field
    return "name" if code == "name_too_long" else None


def _tokens(text: str) -> int | None:
    return int(text[:9]) or None if text.isascii() and text.isdigit() else None


def _money(text: str) -> Decimal | None:
    try:
        value = Decimal(text[:30])
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value < 10**6 else None


def _differs(shown: str, price: Decimal) -> bool:
    was = _money(shown)
    return was is not None and was != price


def _memory(held: Quote) -> dict[str, Decimal | int | None] | None:
    """GB needed and there; what a machine has is not always known before it is looked at."""
    needed, there = held.plan.get("memory_gb"), held.plan.get("memory_there_gb")
    if not needed:
        return None
    needed_gb, there_gb = Decimal(needed), Decimal(there) if there else None
    percent = min(100, int(100 * needed_gb / there_gb)) if there_gb else 0
    return {"needed": needed_gb, "there": there_gb, "percent": percent}
