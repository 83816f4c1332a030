from modeltranslation.translator import TranslationOptions, register

from sizing.models import HubModel


@register(HubModel)
class HubModelTranslation(TranslationOptions):
    fields = ("summary",)
