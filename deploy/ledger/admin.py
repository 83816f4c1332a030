"""The ledger in the staff's pages: everything to read, nothing to edit, and one form that gives credit."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import CharField, OuterRef, Q, QuerySet, Subquery, Sum, UUIDField, Value
from django.db.models.functions import Cast, NullIf
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.decorators import action

from arrakis import localize
from arrakis.accounts.models import User, Workspace
from arrakis.audit.admin import ReadOnlyMixin, ReadOnlyModelAdmin
from deploy.ledger import services
from deploy.ledger.forms import CreditForm
from deploy.ledger.models import SYSTEM, Account, Entry, Transfer

_WORKSPACE = Workspace.objects.filter(pk=Cast(NullIf(OuterRef("owner"), Value(SYSTEM)), UUIDField()))


def with_workspace(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Each row with the name of the workspace that owns it."""
    return cast(QuerySet[Any], rows.annotate(workspace_name=Subquery(_WORKSPACE.values("name")[:1])))


def owned_by_match(text: str) -> Q:
    """Rows whose owner is a workspace with such a name, or with a member of such an address."""
    found = Workspace.objects.filter(
        Q(name__icontains=text) | Q(slug__icontains=text) | Q(members__email__icontains=text)
    )
    return Q(owner__in=found.annotate(text=Cast("pk", CharField())).values("text"))


class OwnedModelAdmin(ReadOnlyModelAdmin):
    """For rows with an `owner`: shows and finds the workspace behind it."""

    list_per_page = 50
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_workspace(super().get_queryset(request))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, duplicates = super().get_search_results(request, queryset, search_term)
        if search_term.strip():
            found |= queryset.filter(owned_by_match(search_term.strip()))
        return found, duplicates

    @admin.display(description=_("workspace"), ordering="owner")
    def workspace(self, row: Any) -> str:
        name: str | None = row.workspace_name
        return name or row.owner


@admin.register(Account)
class AccountAdmin(OwnedModelAdmin):
    list_display = ("workspace", "kind", "grant_ref", "stored_balance", "expires_at")
    list_filter = ("kind",)
    search_fields = ("owner", "grant_ref")
    ordering = ("owner", "kind", "pk")
    actions_list = ("credit_workspace",)
    readonly_fields = ("workspace", "shown_balance")
    fields = ("workspace", "owner", "kind", "grant_ref", "source", "shown_balance", "priority", "expires_at")

    @admin.display(description=_("balance"), ordering="balance", empty_value="–")
    def stored_balance(self, account: Account) -> str | None:
        return None if account.balance is None else localize.money(account.balance)

    @admin.display(description=_("balance"))
    def shown_balance(self, account: Account) -> str:
        """A system account is summed when looked at, not for every row of a list."""
        return localize.money(account.money if account.balance is not None else services.summed(account))

    def has_credit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledger.add_entry")

    @action(description=_("Credit a workspace"), url_path="credit", permissions=["credit"])  # type: ignore[untyped-decorator]  # unfold
    def credit_workspace(self, request: HttpRequest) -> HttpResponse:
        """The form; `?workspace=` fills in whom."""
        if not self.has_credit_permission(request):
            raise PermissionDenied
        initial = {"workspace": request.GET.get("workspace", "")}
        form = CreditForm(request.POST if request.method == "POST" else None, initial=initial)
        if form.is_valid():
            answer = self._give(request, form)
            if answer is not None:
                return answer
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Credit a workspace"),
            "opts": self.model._meta,
            "form": form,
        }
        return TemplateResponse(request, "admin/ledger/credit.html", context)

    def _give(self, request: HttpRequest, form: CreditForm) -> HttpResponse | None:
        given = form.cleaned_data
        try:
            entry = services.credit(
                owner=given["workspace"].pk,
                amount=given["amount"],
                kind=given["kind"],
                entry_id=given["entry_id"],
                reason=given["reason"],
                author=cast(User, request.user),
                expires_at=given["expires_at"],
            )
        except services.IdempotencyConflict:
            form.add_error(None, _("This form was sent before with other values. Open it again to give more."))
            return None
        values = {"workspace": given["workspace"].name, "amount": localize.money(given["amount"])}
        messages.success(request, gettext("%(workspace)s was credited %(amount)s.") % values)
        return redirect("admin:ledger_entry_change", entry.pk)


class TransferInline(ReadOnlyMixin, TabularInline):  # type: ignore[misc]  # unfold is untyped
    model = Transfer
    fields = ("debit", "credit", "shown_amount")
    readonly_fields = fields
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Transfer]:
        rows: QuerySet[Transfer] = super().get_queryset(request)
        return rows.select_related("debit", "credit").order_by("pk")

    @admin.display(description=_("amount"))
    def shown_amount(self, transfer: Transfer) -> str:
        return localize.money(transfer.amount)


@admin.register(Entry)
class EntryAdmin(OwnedModelAdmin):
    list_display = ("id", "workspace", "code", "moved", "reason", "author", "event_at")
    list_filter = ("code", ("author", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("author",)
    search_fields = ("id", "owner", "ref_id", "reason")
    date_hierarchy = "event_at"
    ordering = ("-event_at", "-id")
    inlines = (TransferInline,)
    fields = ("id", "workspace", "owner", "code", "moved", "reason", "author", "ref_type", "ref_id", "event_at")
    readonly_fields = ("workspace", "moved")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Entry]:
        total = Transfer.objects.filter(entry=OuterRef("pk")).order_by().values("entry").annotate(sum=Sum("amount"))
        rows: QuerySet[Entry] = super().get_queryset(request)
        return rows.annotate(total=Subquery(total.values("sum")))

    @admin.display(description=_("moved"))
    def moved(self, entry: Entry) -> str:
        return localize.money(entry.total or 0)  # type: ignore[attr-defined]
